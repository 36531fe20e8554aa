#include "runtime/generation/sampling/Sampler.h"

#include "sample/choice.cuh"
#include "support/Diagnostic.h"
#include "support/text/Number.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace kiln {

Error checkSamplingParams(const SamplingParams &params) {
  // The condition is negated so that it refuses NaN as well.
  if (!(params.temperature > 0) || std::isinf(params.temperature))
    return makeError("--temperature: expected a number above 0, got " + numberText(params.temperature));
  if (params.topK < 0)
    return makeError("--top-k: expected 0 (off) or more, got " + Twine(params.topK));
  if (!(params.topP > 0 && params.topP <= 1))
    return makeError("--top-p: expected a number above 0 and at most 1, got " + numberText(params.topP));
  if (!(params.minP >= 0 && params.minP <= 1))
    return makeError("--min-p: expected a number from 0 to 1, got " + numberText(params.minP));
  return Error::success();
}

Expected<int32_t> argmax(ArrayRef<float> logits) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  int32_t best = -1;
  float bestLogit = -infinity;
  for (size_t id = 0; id < logits.size(); ++id) {
    float logit = logits[id];
    if (std::isnan(logit) || logit == infinity)
      return makeError("logits: expected finite numbers, got " + Twine(std::isnan(logit) ? "nan" : "infinity") +
                       " for token " + Twine(id));
    if (logit > bestLogit) {
      best = static_cast<int32_t>(id);
      bestLogit = logit;
    }
  }
  if (best < 0)
    return makeError("logits: expected a finite number, got none of " + Twine(logits.size()));
  return best;
}

float samplingScale(const SamplingParams &params) {
  double scale = 0x1p24 / (params.temperature * std::log(2.0));
  return static_cast<float>(std::min<double>(scale, std::numeric_limits<float>::max()));
}

uint64_t samplingTopP(const SamplingParams &params) {
  return params.topP == 1 ? 0 : std::max<uint64_t>(static_cast<uint64_t>(std::ldexp(params.topP, 64)), 1);
}

uint32_t samplingMostExponent(const SamplingParams &params) {
  if (params.minP == 0)
    return kLargestExponent;
  return static_cast<uint32_t>(std::min<double>(-std::log2(params.minP) * 0x1p24, kLargestExponent));
}

Sampler::Sampler(const SamplingParams &params) { setParams(params); }

void Sampler::setParams(const SamplingParams &chosen) {
  params = chosen;
  scale = samplingScale(params);
  topPUnits = samplingTopP(params);
  mostExponent = samplingMostExponent(params);
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

void Sampler::keepTopP(float largest) {
  if (topPUnits == 0)
    return;
  uint64_t total = 0;
  for (Candidate &candidate : candidates)
    total += candidate.weight = weightOfExponent(tokenExponent(candidate.logit, largest, scale));
  uint64_t needed = topPWeight(topPUnits, total);
  // A heap, not a sort: usually only a few hundred of fifty thousand tokens are needed.
  auto isLessProbable = [](const Candidate &a, const Candidate &b) { return isMoreProbable(b, a); };
  std::make_heap(candidates.begin(), candidates.end(), isLessProbable);
  uint64_t kept = 0;
  auto heapEnd = candidates.end();
  while (heapEnd != candidates.begin() && kept < needed) {
    std::pop_heap(candidates.begin(), heapEnd, isLessProbable);
    --heapEnd;
    kept += heapEnd->weight;
  }
  candidates.erase(candidates.begin(), heapEnd);
}

int32_t Sampler::draw(float largest, uint64_t sequence, uint64_t position) const {
  const TokenDraw draw = {largest, scale, mostExponent, {params.seed, sequence, position}};
  uint64_t best = 0;
  for (const Candidate &candidate : candidates) {
    auto id = static_cast<uint32_t>(candidate.id);
    if (!draw.isKept(candidate.logit))
      continue;
    const uint32_t word = noiseWords(draw.noise, noiseBlock(id)).words[noiseWord(id)];
    // Most noises are too small to be worth computing.
    if (draw.candidate(candidate.logit, id, noiseBound(word)) > best)
      best = std::max<uint64_t>(best, draw.candidate(candidate.logit, id, tokenNoise(draw.noise, id, word)));
  }
  return static_cast<int32_t>(idOfCandidate(best));
}

Expected<int32_t> Sampler::choose(ArrayRef<float> logits, uint64_t sequence, uint64_t position) {
  Expected<int32_t> best = argmax(logits);
  if (!best || params.greedy)
    return best;
  candidates.clear();
  for (size_t id = 0; id < logits.size(); ++id)
    candidates.push_back({static_cast<int32_t>(id), logits[id], 0});
  keepTopK();
  keepTopP(logits[*best]);
  return draw(logits[*best], sequence, position);
}

} // namespace kiln
