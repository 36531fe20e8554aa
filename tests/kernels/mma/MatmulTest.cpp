// gemm/mma_tiled.cuh and gemm/mma_tiled_score.cuh against products in double.

#include "kernels/KernelTest.h"
#include "kernels/NormedProduct.h"
#include "kernels/ScoreTest.h"
#include "kernels/mma/Cases.h"

#include <cmath>

namespace kiln {
namespace {

class MmaMatmulTest : public KernelTest, public testing::WithParamInterface<MmaMatmulCase> {
protected:
  const Variant &kernel = GetParam().kernel;
  const DType type = kernel.element();
  const int rows = GetParam().rows, cols = kernel["kCols"], depth = kernel["kDepth"];

  TestArray x = factors(static_cast<size_t>(rows) * depth), weight = factors(static_cast<size_t>(cols) * depth);
  TestArray bias = random(DType::F32, cols);

  /// A product rounds floats to 11 bits. These values deviate slightly from numbers with 11 bits, but round to them.
  TestArray factors(size_t size) {
    TestArray tensor = random(type, size);
    for (size_t i = 0; type == DType::F32 && i < size; ++i)
      tensor.set(i, toTf32(tensor[i]) * (1 + std::ldexp(static_cast<double>(i % 3) - 1, -13)));
    return tensor;
  }
  static double toTf32(double value) {
    int exponent = 0;
    double fraction = std::frexp(value, &exponent);
    return std::ldexp(std::round(std::ldexp(fraction, 11)), exponent - 11);
  }
  static std::vector<double> rounded(const TestArray &tensor) {
    std::vector<double> values = tensor.values();
    if (tensor.type == DType::F32)
      llvm::transform(values, values.begin(), toTf32);
    return values;
  }

  Dim3 grid() const { return {ceilDivide(cols, kernel["kTileN"]), ceilDivide(rows, kernel["kTileM"])}; }
  int threads() const { return 32 * kernel["kWarpsM"] * kernel["kWarpsN"]; }
  int sharedBytes() const { return 128 * kernel["kStages"] * (kernel["kTileM"] + kernel["kTileN"]); }

  Expectation product() const {
    Expectation expected = matmul(rounded(x), rounded(weight), rows, cols, depth, /*transposed=*/true);
    addBias(expected, bias.values());
    return expected;
  }
};

using MmaActivation = MmaMatmulTest;
TEST_P(MmaActivation, MultipliesAndActivates) {
  TestArray out = output(type, static_cast<size_t>(rows) * cols);
  run(kernel, grid(), threads(), sharedBytes(), {out}, x, weight, bias, out, rows);
  Expectation expected = product();
  apply(expected, geluTanh);
  expectClose(out, expected);
}
INSTANTIATE_TEST_SUITE_P(Kernels, MmaActivation, testing::ValuesIn(withRandomShapes(mmaActivationCases(), reshaped)));

using MmaResidual = MmaMatmulTest;
TEST_P(MmaResidual, MultipliesAndAdds) {
  const size_t size = static_cast<size_t>(rows) * cols;
  TestArray skip = random(type, size), out = output(DType::F32, size);
  run(kernel, grid(), threads(), sharedBytes(), {out}, x, weight, bias, skip, out, rows);
  Expectation expected = product();
  addElements(expected, skip.values());
  expectClose(out, expected);
}
INSTANTIATE_TEST_SUITE_P(Kernels, MmaResidual, testing::ValuesIn(withRandomShapes(mmaResidualCases(), reshaped)));

using MmaNorm = MmaMatmulTest;
TEST_P(MmaNorm, NormalizesSums) {
  NormedProduct normed{x, weight, bias, rows, cols, depth};
  normed.makeKinds();
  TestArray mean = output(DType::F32, rows), rstd = output(DType::F32, rows), sums = output(DType::F32, cols);
  normed.fill(mean, rstd, sums);
  TestArray out = output(DType::F32, static_cast<size_t>(rows) * cols);
  run(kernel, grid(), threads(), sharedBytes(), {out}, x, weight, mean, rstd, sums, bias, out, rows);
  normed.expectNoWorse(out);
}
INSTANTIATE_TEST_SUITE_P(Kernels, MmaNorm, testing::ValuesIn(withRandomShapes(mmaNormCases(), reshaped)));

using MmaGroups = MmaMatmulTest;
TEST_P(MmaGroups, MergesAndHandsOutStatistics) {
  NormedProduct normed{x, weight, bias, rows, cols, depth};
  auto launch = [&](NormedProduct::Groups g) {
    run(kernel, grid(), threads(), sharedBytes(), g.outputs(), x, weight, g.means, g.squares, g.sums, bias, g.out,
        g.outMeans, g.outSquares, rows);
  };
  normed.expectGroups(type, [&](size_t size) { return output(DType::F32, size); }, launch);
}
INSTANTIATE_TEST_SUITE_P(Kernels, MmaGroups, testing::ValuesIn(mmaGroupsCases()));

/// Another matrix with as many steps for the parts to share.
MmaMatmulCase reshapedSplit(const MmaMatmulCase &one, function_ref<int(int)> upTo) {
  return {one.kernel.with({{"kCols", std::to_string(upTo(2 * one.kernel["kCols"]))}}), upTo(2 * one.rows)};
}

using MmaSplit = MmaMatmulTest;
TEST_P(MmaSplit, AddsThePartsOfTheDepth) {
  const size_t size = static_cast<size_t>(rows) * cols;
  const Dim3 tiles = grid();
  const int splits = kernel["kSplits"], elements = kernel["kTileM"] * kernel["kTileN"];
  TestArray skip = random(type, size), out = output(DType::F32, size);
  TestArray parts = output(DType::F32, static_cast<size_t>(tiles.x) * tiles.y * splits * elements);
  TestArray arrivals = zeros(DType::I32, static_cast<size_t>(tiles.x) * tiles.y);
  run(kernel, {tiles.x, tiles.y, static_cast<uint32_t>(splits)}, threads(), sharedBytes() + 128, {out}, x, weight, bias,
      skip, parts, arrivals, out, rows);
  Expectation expected = product();
  addElements(expected, skip.values());
  expectClose(out, expected);
  EXPECT_EQ(arrivals.values(), std::vector<double>(arrivals.size, 0));
}
INSTANTIATE_TEST_SUITE_P(Kernels, MmaSplit, testing::ValuesIn(withRandomShapes(mmaSplitCases(), reshapedSplit)));

/// The columns are a vocabulary.
class MmaScore : public MmaMatmulTest {
protected:
  void runAndExpect() {
    ScoredRows scored{integers(someTargets(rows, cols)), output(DType::F32, rows), output(DType::I32, rows),
                      output(DType::F32, rows)};
    TestArray parts = output(DType::F32, static_cast<size_t>(rows) * grid().x * kernel["kWarpsN"] * 4);
    TestArray arrivals = zeros(DType::I32, grid().y);
    run(kernel, grid(), threads(), sharedBytes() + 128, scored.outputs(), x, weight, scored.targets,
        scored.logProbability, scored.best, scored.bestLogProbability, parts, arrivals, rows);
    scored.expectScoresOf(matmul(rounded(x), rounded(weight), rows, cols, depth, /*transposed=*/true));
    EXPECT_EQ(arrivals.values(), std::vector<double>(arrivals.size, 0));
  }
};

TEST_P(MmaScore, IsTheLogProbabilityOfTheTarget) { runAndExpect(); }
TEST_P(MmaScore, HasTheFirstOfEqualsAsBest) {
  repeatColumns(weight, cols, depth);
  runAndExpect();
}
INSTANTIATE_TEST_SUITE_P(Kernels, MmaScore, testing::ValuesIn(withRandomShapes(mmaScoreCases(), reshaped)));

} // namespace
} // namespace kiln
