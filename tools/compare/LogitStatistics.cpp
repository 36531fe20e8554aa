#include "tools/compare/LogitStatistics.h"

#include <algorithm>
#include <cmath>

namespace kiln {

/// The logarithm of the sum of the exponentials; not finite if a logit is not.
static double logSum(ArrayRef<float> logits, size_t best) {
  double largest = logits[best], sum = 0;
  for (float logit : logits)
    sum += std::exp(logit - largest);
  return std::isinf(largest) ? largest : largest + std::log(sum);
}

RowComparison compareRows(ArrayRef<float> a, ArrayRef<float> b, int32_t target) {
  RowComparison row;
  row.isFinite = llvm::all_of(a, [](float logit) { return std::isfinite(logit); }) &&
                 llvm::all_of(b, [](float logit) { return std::isfinite(logit); });
  if (!row.isFinite)
    return row;
  size_t bestA = std::max_element(a.begin(), a.end()) - a.begin();
  size_t bestB = std::max_element(b.begin(), b.end()) - b.begin();
  row.sameBest = bestA == bestB;
  double sumA = logSum(a, bestA), sumB = logSum(b, bestB);
  for (size_t id = 0; id < a.size(); ++id) {
    double logA = a[id] - sumA, logB = b[id] - sumB;
    row.divergence += std::exp(logA) * (logA - logB);
    double difference = std::abs(static_cast<double>(a[id]) - b[id]);
    if (difference > row.largest) {
      row.largest = difference;
      row.largestId = static_cast<int32_t>(id);
    }
  }
  row.divergence = std::max(row.divergence, 0.0); // rounding may leave less
  if (target >= 0) {
    row.nllA = sumA - a[target];
    row.nllB = sumB - b[target];
  }
  return row;
}

static void addScore(PerplexityResult &result, double nll) {
  ++result.tokensScored;
  result.nll += nll;
  result.squares += nll * nll;
}

void LogitStatistics::add(const RowComparison &row, int64_t sequence, int64_t position, int32_t target) {
  divergences.push_back(row.divergence);
  sameBest += row.sameBest;
  if (row.largest > largest) {
    largest = row.largest;
    largestSequence = sequence;
    largestPosition = position;
    largestId = row.largestId;
  }
  if (target < 0)
    return;
  addScore(a, row.nllA);
  addScore(b, row.nllB);
}

double LogitStatistics::meanDivergence() const {
  double sum = 0;
  for (double divergence : divergences)
    sum += divergence;
  return sum / static_cast<double>(rows());
}

double LogitStatistics::divergenceError() const {
  if (rows() < 2)
    return 0;
  double mean = meanDivergence(), squares = 0;
  for (double divergence : divergences)
    squares += (divergence - mean) * (divergence - mean);
  auto count = static_cast<double>(rows());
  return std::sqrt(squares / (count - 1) / count);
}

double LogitStatistics::divergenceQuantile(double share) const {
  std::vector<double> sorted = divergences;
  auto rank = static_cast<size_t>(std::ceil(share * static_cast<double>(sorted.size())));
  auto nth = sorted.begin() + static_cast<ptrdiff_t>(std::clamp<size_t>(rank, 1, sorted.size()) - 1);
  std::nth_element(sorted.begin(), nth, sorted.end());
  return *nth;
}

} // namespace kiln
