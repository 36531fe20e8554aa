#include "runtime/Sampler.h"

#include "support/Diagnostic.h"
#include "support/Number.h"
#include "support/Random.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace kiln {

Error checkSamplingParams(const SamplingParams &params) {
  // Written so that NaN fails.
  if (!(params.temperature > 0) || std::isinf(params.temperature))
    return makeError("--temperature: expected a number above 0, got " + numberText(params.temperature));
  if (params.topK < 0)
    return makeError("--top-k: expected 0 (off) or more, got " + Twine(params.topK));
  if (!(params.topP > 0 && params.topP <= 1))
    return makeError("--top-p: expected a number above 0 and at most 1, got " + numberText(params.topP));
  return Error::success();
}

Expected<int32_t> argmax(ArrayRef<float> logits) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  int32_t best = -1;
  float bestLogit = -infinity;
  for (size_t id = 0; id < logits.size(); ++id) {
    float logit = logits[id];
    if (std::isnan(logit) || logit == infinity)
      return makeError("logits: expected finite numbers, got " +
                       Twine(std::isnan(logit) ? "nan" : "infinity") + " for token " + Twine(id));
    if (logit > bestLogit) {
      best = static_cast<int32_t>(id);
      bestLogit = logit;
    }
  }
  if (best < 0)
    return makeError("logits: expected a finite number, got none of " + Twine(logits.size()));
  return best;
}

bool Sampler::isMoreProbable(const Candidate &a, const Candidate &b) {
  return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
}

void Sampler::keepTopK() {
  auto k = static_cast<size_t>(params.topK);
  if (k == 0 || k >= candidates.size())
    return;
  std::nth_element(candidates.begin(), candidates.begin() + params.topK, candidates.end(), isMoreProbable);
  candidates.resize(k);
}

void Sampler::weigh(float maxLogit) {
  for (Candidate &candidate : candidates)
    candidate.weight =
        std::exp((static_cast<double>(candidate.logit) - static_cast<double>(maxLogit)) / params.temperature);
}

void Sampler::keepTopP() {
  if (params.topP == 1)
    return;
  double total = 0;
  for (const Candidate &candidate : candidates)
    total += candidate.weight;
  // A heap gives up the most probable ones one by one: of fifty thousand tokens, mostly a few hundred are
  // needed.
  auto isLessProbable = [](const Candidate &a, const Candidate &b) { return isMoreProbable(b, a); };
  std::make_heap(candidates.begin(), candidates.end(), isLessProbable);
  double kept = 0;
  auto heapEnd = candidates.end();
  while (heapEnd != candidates.begin() && kept < params.topP * total) {
    std::pop_heap(candidates.begin(), heapEnd, isLessProbable);
    --heapEnd;
    kept += heapEnd->weight;
  }
  candidates.erase(candidates.begin(), heapEnd);
}

Expected<int32_t> Sampler::choose(ArrayRef<float> logits, uint64_t sequence, uint64_t step) {
  Expected<int32_t> best = argmax(logits);
  if (!best || params.greedy)
    return best;
  candidates.clear();
  for (size_t id = 0; id < logits.size(); ++id)
    candidates.push_back({static_cast<int32_t>(id), logits[id], 0});
  keepTopK();
  weigh(logits[*best]);
  keepTopP();
  if (candidates.size() < logits.size())
    llvm::sort(candidates, [](const Candidate &a, const Candidate &b) { return a.id < b.id; });

  PhiloxBlock words = philox4x32({static_cast<uint32_t>(step), static_cast<uint32_t>(step >> 32),
                                  static_cast<uint32_t>(sequence), static_cast<uint32_t>(sequence >> 32)},
                                 params.seed);
  double total = 0;
  for (const Candidate &candidate : candidates)
    total += candidate.weight;
  double target = uniformDouble(words[0], words[1]) * total;
  double sum = 0;
  for (const Candidate &candidate : candidates)
    if ((sum += candidate.weight) > target)
      return candidate.id;
  // Only a product rounded up to the total comes here.
  return *best;
}

} // namespace kiln
