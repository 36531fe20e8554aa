#include "runtime/generation/sampling/LogProbabilities.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace kiln {

ChosenLogProbabilities logProbabilities(ArrayRef<float> logits, int32_t token, int64_t count) {
  const double largest = *llvm::max_element(logits);
  double sum = 0;
  for (float logit : logits)
    sum += std::exp(logit - largest);
  const double total = largest + std::log(sum);
  auto of = [&](int32_t id) { return TokenLogProbability{id, static_cast<float>(logits[id] - total)}; };
  std::vector<int32_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  auto end = ids.begin() + std::min<int64_t>(count, static_cast<int64_t>(ids.size()));
  std::partial_sort(ids.begin(), end, ids.end(),
                    [&](int32_t a, int32_t b) { return logits[a] != logits[b] ? logits[a] > logits[b] : a < b; });
  ChosenLogProbabilities result{of(token), {}};
  std::transform(ids.begin(), end, std::back_inserter(result.top), of);
  return result;
}

} // namespace kiln
