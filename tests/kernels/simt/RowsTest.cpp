// norm/layernorm.cuh, norm/softmax.cuh and elementwise/map.cuh against computations in double.

#include "kernels/ScoreTest.h"
#include "kernels/simt/Cases.h"

#include <cmath>

namespace kiln {
namespace {

/// Another number of rows and, for kernels that take it at run time, of columns.
RowsCase reshapedRows(const RowsCase &one, function_ref<int(int)> upTo) {
  return {one.kernel, upTo(3 * one.rows), one.cols};
}
RowsCase reshaped(const RowsCase &one, function_ref<int(int)> upTo) {
  int vec = one.kernel["kVec"];
  return {one.kernel, upTo(3 * one.rows), vec * upTo(2 * one.cols / vec)};
}

class RowsTest : public KernelTest, public testing::WithParamInterface<RowsCase> {
protected:
  const Variant &kernel = GetParam().kernel;
  const DType type = kernel.element();
  const int rows = GetParam().rows, cols = GetParam().cols;
  const size_t size = static_cast<size_t>(rows) * cols;

  uint32_t blocksFor(int rows) const { return ceilDivide(rows, kernel["kThreads"] / kernel["kRowThreads"]); }
};

/// Kernels that add two tensors and normalise the sum.
class LayerNormTest : public RowsTest {
protected:
  /// Runs the kernel on numbers around this mean.
  void runAndExpect(double mean) {
    TestArray x = random(type, size, mean), skip = random(type, size, mean), weight = random(type, cols),
              bias = random(type, cols);
    TestArray total = output(type, size), out = output(type, size);
    run(kernel, {blocksFor(rows)}, kernel["kThreads"], 0, {total, out}, x, skip, weight, bias, total, out, rows);

    Expectation sum(size);
    addElements(sum, x.values());
    addElements(sum, skip.values());
    expectClose(total, sum, 1e-7);
    expectClose(out, layerNorm(sum.values, weight.values(), bias.values()));
  }
};

using LayerNormRows = LayerNormTest;
// With a mean far from zero, E[x²] − E[x]² would lose all digits.
TEST_P(LayerNormRows, AddsStoresAndNormalizes) { runAndExpect(8); }
INSTANTIATE_TEST_SUITE_P(Kernels, LayerNormRows, testing::ValuesIn(withRandomShapes(layerNormCases(), reshapedRows)));

using OnePassRows = LayerNormTest;
TEST_P(OnePassRows, AddsStoresAndNormalizes) { runAndExpect(0.25); }
INSTANTIATE_TEST_SUITE_P(Kernels, OnePassRows,
                         testing::ValuesIn(withRandomShapes(onePassLayerNormCases(), reshapedRows)));

using RowStatisticsKernels = RowsTest;
TEST_P(RowStatisticsKernels, AreThoseOfRowsFarFromZero) {
  TestArray x = random(type, size, 30), mean = output(DType::F32, rows), rstd = output(DType::F32, rows);
  run(kernel, {blocksFor(rows)}, kernel["kThreads"], 0, {mean, rstd}, x, mean, rstd, rows);
  const std::vector<double> values = x.values();
  Expectation means(rows), rstds(rows);
  for (int row = 0; row < rows; ++row) {
    const double *first = &values[static_cast<size_t>(row) * cols];
    double sum = 0, squares = 0;
    for (int col = 0; col < cols; ++col)
      sum += first[col];
    for (int col = 0; col < cols; ++col)
      squares += std::pow(first[col] - sum / cols, 2);
    means.add(row, sum / cols);
    rstds.add(row, 1 / std::sqrt(squares / cols + 1e-5));
  }
  expectClose(mean, means);
  expectClose(rstd, rstds);
}
INSTANTIATE_TEST_SUITE_P(Kernels, RowStatisticsKernels,
                         testing::ValuesIn(withRandomShapes(rowStatisticsCases(), reshapedRows)));

using MergedStatistics = RowsTest;
TEST_P(MergedStatistics, HaveTheSameBitsByFourLanesAndByEight) {
  TestArray means = random(type, size, 30), squares = random(type, size, 100);
  TestArray mean4 = output(type, rows), rstd4 = output(type, rows), mean8 = output(type, rows),
            rstd8 = output(type, rows);
  run(kernel, {1}, 32, 0, {mean4, rstd4, mean8, rstd8}, means, squares, mean4, rstd4, mean8, rstd8, rows);
  const std::vector<double> ofMeans = means.values(), ofSquares = squares.values();
  Expectation expectedMeans(rows), expectedRstds(rows);
  for (int row = 0; row < rows; ++row) {
    const size_t first = static_cast<size_t>(row) * cols;
    double sum = 0, deviations = 0;
    for (int group = 0; group < cols; ++group)
      sum += ofMeans[first + group];
    for (int group = 0; group < cols; ++group)
      deviations += ofSquares[first + group] + 8 * std::pow(ofMeans[first + group] - sum / cols, 2);
    expectedMeans.add(row, sum / cols);
    expectedRstds.add(row, 1 / std::sqrt(deviations / (8 * cols) + 1e-5));
  }
  expectClose(mean4, expectedMeans);
  expectClose(rstd4, expectedRstds);
  EXPECT_EQ(mean4.bytes(), mean8.bytes());
  EXPECT_EQ(rstd4.bytes(), rstd8.bytes());
}
INSTANTIATE_TEST_SUITE_P(Kernels, MergedStatistics, testing::ValuesIn(mergedStatisticsCases()));

using RowReductions = RowsTest;
TEST_P(RowReductions, AreStatisticsOfRows) {
  TestArray x = random(type, size, 3), mean = random(DType::F32, rows, 3), out = output(DType::F32, rows);
  run(kernel, {static_cast<uint32_t>(rows)}, kernel["kThreads"], 0, {out}, x, mean, out);
  const std::vector<double> values = x.values(), means = mean.values();
  Expectation expected(rows);
  for (int row = 0; row < rows; ++row) {
    double squares = 0;
    for (int col = 0; col < cols; ++col)
      squares += std::pow(values[static_cast<size_t>(row) * cols + col] - means[row], 2);
    expected.add(row, 1 / std::sqrt(squares / cols + 1e-5));
  }
  expectClose(out, expected);
}
INSTANTIATE_TEST_SUITE_P(Kernels, RowReductions,
                         testing::ValuesIn(withRandomShapes(rowReductionCases(), reshapedRows)));

class ScoreRows : public RowsTest {
protected:
  ScoredRows scoresOf(const TestArray &logits, const std::vector<int> &targets) {
    ScoredRows scored{integers(targets), output(DType::F32, rows), output(DType::I32, rows), output(DType::F32, rows)};
    run(kernel, {static_cast<uint32_t>(rows)}, kernel["kThreads"], 0, scored.outputs(), logits, scored.targets,
        scored.logProbability, scored.best, scored.bestLogProbability);
    return scored;
  }
  void runAndExpect(const TestArray &logits) {
    const ScoredRows scored = scoresOf(logits, someTargets(rows, cols));
    Expectation expected(size);
    addElements(expected, logits.values());
    scored.expectScoresOf(expected);
  }
  /// Puts `value` into the first column of some rows, into the last of others, and expects NaN for these rows alone.
  void expectNaNFor(float value) {
    TestArray logits = random(type, size);
    auto isSpoilt = [](int row) { return row % 3 != 1; };
    for (int row = 0; row < rows; ++row)
      if (isSpoilt(row))
        logits.set(static_cast<size_t>(row) * cols + (row % 3 == 0 ? 0 : cols - 1), value);
    const ScoredRows scored = scoresOf(logits, std::vector<int>(rows, cols / 2));
    for (int row = 0; row < rows; ++row) {
      EXPECT_EQ(std::isnan(scored.logProbability[row]), isSpoilt(row)) << row;
      EXPECT_EQ(std::isnan(scored.bestLogProbability[row]), isSpoilt(row)) << row;
    }
  }
};

TEST_P(ScoreRows, AreLogProbabilities) { runAndExpect(random(type, size, 3)); }
TEST_P(ScoreRows, AreThoseOfLargeLogits) { runAndExpect(random(type, size, -300, 3000)); }
TEST_P(ScoreRows, HaveTheFirstOfEqualsAsBest) {
  TestArray logits = random(type, size);
  for (int row = 0; row < rows; ++row)
    for (int col = cols * 2 / 5; col < cols; col += 3)
      logits.set(static_cast<size_t>(row) * cols + col, 9);
  runAndExpect(logits);
}
TEST_P(ScoreRows, AreNaNBesideNaN) { expectNaNFor(NAN); }
TEST_P(ScoreRows, AreNaNBesideInfinity) { expectNaNFor(INFINITY); }
INSTANTIATE_TEST_SUITE_P(Kernels, ScoreRows, testing::ValuesIn(withRandomShapes(scoreRowsCases(), reshapedRows)));

/// Softmax of rows of scores; row r sees the first visible(r) of them.
Expectation softmaxRows(ArrayRef<double> scores, int cols, function_ref<int(int)> visible) {
  Expectation expected(scores.size());
  for (size_t at = 0, row = 0; at < scores.size(); at += cols, ++row) {
    const std::vector<double> probabilities = softmax(scores.slice(at, cols), 0, visible(row));
    for (int col = 0; col < cols; ++col)
      expected.add(at + col, probabilities[col]);
  }
  return expected;
}

using CausalSoftmaxRows = RowsTest;
TEST_P(CausalSoftmaxRows, SeeTheirPast) {
  const int heads = rows, tokens = cols;
  const size_t all = size * tokens;
  TestArray scores = random(type, all, 0, 5), out = output(type, all);
  for (size_t row = 0; row < size; ++row)
    for (int col = row % tokens + 1; col < tokens; ++col)
      scores.set(row * tokens + col, NAN);
  run(kernel, {blocksFor(heads * tokens)}, kernel["kThreads"], 0, {out}, scores, out, heads, tokens);
  // The difference of two scores is rounded before the exponential.
  expectClose(out, softmaxRows(scores.values(), tokens, [&](int row) { return row % tokens + 1; }), 3e-6);
}
INSTANTIATE_TEST_SUITE_P(Kernels, CausalSoftmaxRows,
                         testing::ValuesIn(withRandomShapes(causalSoftmaxCases(), reshaped)));

using MaskedSoftmaxRows = RowsTest;
TEST_P(MaskedSoftmaxRows, IgnoreMinusInfinity) {
  TestArray scores = random(type, size, 100, 5), out = output(type, size);
  auto visible = [&](int row) { return std::min(row, cols); }; // row 0: nothing; row 1: one score
  for (int row = 0; row < rows; ++row)
    for (int col = visible(row); col < cols; ++col)
      scores.set(static_cast<size_t>(row) * cols + col, -INFINITY);
  run(kernel, {blocksFor(rows)}, kernel["kThreads"], 0, {out}, scores, out, rows, cols);
  expectClose(out, softmaxRows(scores.values(), cols, visible), 3e-6);
}
TEST_P(MaskedSoftmaxRows, TakeNoOtherInfinityForAMask) {
  TestArray scores = random(type, size), out = output(type, size);
  // Every second row has one +inf, each in another column.
  for (int row = 0; row < rows; row += 2)
    scores.set(static_cast<size_t>(row) * cols + row % cols, INFINITY);
  run(kernel, {blocksFor(rows)}, kernel["kThreads"], 0, {out}, scores, out, rows, cols);
  Expectation expected = softmaxRows(scores.values(), cols, [&](int) { return cols; });
  EXPECT_TRUE(std::isnan(expected.values.front()));
  expectClose(out, expected, 3e-6);
}
INSTANTIATE_TEST_SUITE_P(Kernels, MaskedSoftmaxRows,
                         testing::ValuesIn(withRandomShapes(maskedSoftmaxCases(), reshaped)));

using Map = RowsTest;
TEST_P(Map, CoversEveryElementWithAnyGrid) {
  TestArray x = random(type, size), bias = random(type, cols);
  Expectation expected(size);
  addElements(expected, x.values());
  addBias(expected, bias.values());
  apply(expected, geluErf);
  for (uint32_t blocks : {1u, 2u, 40u}) {
    TestArray out = output(type, size);
    int64_t count = static_cast<int64_t>(size);
    run(kernel, {blocks}, kernel["kThreads"], 0, {out}, x, bias, out, count);
    expectClose(out, expected);
  }
}
/// Vectors lie within rows, as the code generator chooses them, unless there is only one row.
RowsCase reshapedMap(const RowsCase &one, function_ref<int(int)> upTo) {
  RowsCase other = reshapedRows(one, upTo);
  if (other.cols % other.kernel["kVec"] != 0)
    other.rows = 1;
  return other;
}
INSTANTIATE_TEST_SUITE_P(Kernels, Map, testing::ValuesIn(withRandomShapes(mapCases(), reshapedMap)));

} // namespace
} // namespace kiln
