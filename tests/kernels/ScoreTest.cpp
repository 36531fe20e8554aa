#include "kernels/ScoreTest.h"

#include <cmath>

namespace kiln {

std::vector<int> someTargets(int rows, int cols) {
  std::mt19937 generator(7);
  std::vector<int> targets;
  for (int row = 0; row < rows; ++row)
    targets.push_back(row % 7 == 3   ? -1
                      : row % 7 == 5 ? cols + row % 3
                                     : static_cast<int>(generator() % static_cast<unsigned>(cols)));
  return targets;
}

void repeatColumns(TestArray &weight, int cols, int depth) {
  const int third = std::max(1, cols / 3);
  for (int col = third; col < cols; ++col)
    for (int d = 0; d < depth; ++d)
      weight.set(static_cast<size_t>(col) * depth + d, weight[static_cast<size_t>(col % third) * depth + d]);
}

void ScoredRows::expectScoresOf(const Expectation &logits, double tolerance) const {
  const size_t rows = targets.size, cols = logits.size() / rows;
  size_t wrong = 0;
  std::string first;
  for (size_t row = 0; row < rows; ++row) {
    ArrayRef<double> values = ArrayRef(logits.values).slice(row * cols, cols);
    const auto best = static_cast<size_t>(std::max_element(values.begin(), values.end()) - values.begin());
    double sum = 0, error = 1e-6;
    for (size_t col = 0; col < cols; ++col) {
      sum += std::exp(values[col] - values[best]);
      error = std::max(error, 2 * tolerance * logits.magnitudes[row * cols + col]);
    }
    const double logOfSum = std::log(sum), id = targets[row];
    const bool hasTarget = id >= 0 && id < static_cast<double>(cols);
    const double wanted = hasTarget ? values[static_cast<size_t>(id)] - values[best] - logOfSum : 0;
    auto isClose = [&](double got, double want) { return std::abs(got - want) <= error + 1e-6 * std::abs(want); };
    // The largest to rounding, and the first of equals.
    const auto chosen = static_cast<size_t>(this->best[row]);
    const bool isBest = chosen < cols && values[best] - values[chosen] <= error &&
                        llvm::find(values, values[chosen]) == values.begin() + chosen;
    const bool isRight = (hasTarget ? isClose(logProbability[row], wanted) : logProbability[row] == 0) && isBest &&
                         isClose(bestLogProbability[row], -logOfSum);
    if (!isRight && wrong++ == 0)
      first = formatv("row {0}, target {1}: expected {2}, best {3} with {4}, got {5}, best {6} with {7}", row, id,
                      wanted, best, -logOfSum, logProbability[row], this->best[row], bestLogProbability[row])
                  .str();
  }
  EXPECT_EQ(wrong, 0u) << first;
}

} // namespace kiln
