// gemm/wgmma_tiled.cuh against a product in double.

#include "kernels/KernelTest.h"
#include "kernels/NormedProduct.h"
#include "kernels/wgmma/Cases.h"

#include <cmath>

namespace kiln {
namespace {

class WgmmaMatmulTest : public KernelTest, public testing::WithParamInterface<WgmmaMatmulCase> {
protected:
  void SetUp() override {
    if (target() != "sm_90a")
      GTEST_SKIP() << "expected a GPU with wgmma, sm_90a, got one of " << target();
  }

  const Variant &kernel = GetParam().kernel;
  const DType type = kernel.element();
  const int rows = GetParam().rows, cols = kernel["kCols"], depth = kernel["kDepth"];
  /// The weight's map has 32 columns together; those past the end are no part of the results.
  const int mappedCols = (cols + 31) / 32 * 32;

  TestArray x = random(type, static_cast<size_t>(rows) * depth);
  TestArray weight = paddedWeight();
  TestArray bias = random(DType::F32, cols);

  TestArray paddedWeight() {
    TestArray array = random(type, static_cast<size_t>(mappedCols) * depth);
    for (size_t i = static_cast<size_t>(cols) * depth; i < array.size; ++i)
      array.set(i, NAN);
    return array;
  }

  MappedArray mappedX() const {
    const auto row = static_cast<uint64_t>(depth) * 2;
    return {
        x, {row / 2, static_cast<uint64_t>(rows)}, {row}, {64, static_cast<uint32_t>(std::min(256, kernel["kTileM"]))}};
  }
  /// As the template wants it: column 8p + 2j + e of 32 is row 8j + 2p + e.
  MappedArray mappedWeight() const {
    const auto row = static_cast<uint64_t>(depth) * 2;
    return {weight,
            {row / 2, 2, 4, 4, static_cast<uint64_t>(mappedCols / 32)},
            {row, 8 * row, 2 * row, 32 * row},
            {64, 2, 4, 4, static_cast<uint32_t>(kernel["kTileN"] / 32)}};
  }

  Dim3 grid() const {
    const uint32_t tiles = ceilDivide(cols, kernel["kTileN"]) * ceilDivide(rows, kernel["kTileM"]);
    return {std::min(static_cast<uint32_t>(GetParam().blocks), tiles)};
  }
  int threads() const { return 128 * (1 + kernel["kConsumers"] * kernel["kTeams"]); }
  /// Stages and barriers, aligned.
  int sharedBytes() const {
    const int stages = kernel["kStages"];
    const int bytes = 128 * stages * (kernel["kTileM"] + kernel["kTileN"]) + 8 * (2 * stages + kernel["kTeams"]);
    return (bytes + 1023) / 1024 * 1024;
  }

  Expectation product() const {
    Expectation expected = matmul(x.values(), weight.values(), rows, cols, depth, /*transposed=*/true);
    addBias(expected, bias.values());
    return expected;
  }
};

using WgmmaActivation = WgmmaMatmulTest;
TEST_P(WgmmaActivation, MultipliesAndActivates) {
  TestArray out = output(type, static_cast<size_t>(rows) * cols);
  run(kernel, grid(), threads(), sharedBytes(), {out}, mappedX(), mappedWeight(), bias, out, rows);
  Expectation expected = product();
  apply(expected, geluTanh);
  expectClose(out, expected);
}
INSTANTIATE_TEST_SUITE_P(Kernels, WgmmaActivation,
                         testing::ValuesIn(withRandomShapes(wgmmaActivationCases(), reshaped)));

using WgmmaResidual = WgmmaMatmulTest;
TEST_P(WgmmaResidual, MultipliesAndAdds) {
  const size_t size = static_cast<size_t>(rows) * cols;
  TestArray skip = random(type, size), out = output(DType::F32, size);
  run(kernel, grid(), threads(), sharedBytes(), {out}, mappedX(), mappedWeight(), bias, skip, out, rows);
  Expectation expected = product();
  addElements(expected, skip.values());
  expectClose(out, expected);
}
INSTANTIATE_TEST_SUITE_P(Kernels, WgmmaResidual, testing::ValuesIn(withRandomShapes(wgmmaResidualCases(), reshaped)));

using WgmmaNorm = WgmmaMatmulTest;
TEST_P(WgmmaNorm, NormalizesSums) {
  NormedProduct normed{x, weight, bias, rows, cols, depth};
  normed.makeKinds();
  TestArray mean = output(DType::F32, rows), rstd = output(DType::F32, rows), sums = output(DType::F32, cols);
  normed.fill(mean, rstd, sums);
  TestArray out = output(DType::F32, static_cast<size_t>(rows) * cols);
  run(kernel, grid(), threads(), sharedBytes(), {out}, mappedX(), mappedWeight(), mean, rstd, sums, bias, out, rows);
  normed.expectNoWorse(out);
}
INSTANTIATE_TEST_SUITE_P(Kernels, WgmmaNorm, testing::ValuesIn(withRandomShapes(wgmmaNormCases(), reshaped)));

using WgmmaGroups = WgmmaMatmulTest;
TEST_P(WgmmaGroups, MergesAndHandsOutStatistics) {
  NormedProduct normed{x, weight, bias, rows, cols, depth};
  normed.makeKinds();
  const size_t groupsIn = x.size / 32, groupsOut = static_cast<size_t>(rows) * cols / 32;
  TestArray unused = output(DType::F32, rows), sums = output(DType::F32, cols);
  TestArray means = output(DType::F32, groupsIn), squares = output(DType::F32, groupsIn);
  normed.fill(unused, unused, sums);
  NormedProduct::fillGroups(x, depth, type, means, squares);
  TestArray out = output(DType::F32, static_cast<size_t>(rows) * cols);
  TestArray outMeans = output(DType::F32, groupsOut), outSquares = output(DType::F32, groupsOut);
  run(kernel, grid(), threads(), sharedBytes(), {out, outMeans, outSquares}, mappedX(), mappedWeight(), means, squares,
      sums, bias, out, outMeans, outSquares, rows);
  normed.expectNoWorse(out);
  TestArray wantedMeans = output(DType::F32, groupsOut), wantedSquares = output(DType::F32, groupsOut);
  NormedProduct::fillGroups(out, cols, type, wantedMeans, wantedSquares);
  for (size_t i = 0; i < groupsOut; ++i) {
    const double deviation = std::sqrt(wantedSquares[i] / 32);
    ASSERT_NEAR(outMeans[i], wantedMeans[i], 1e-6 * (std::abs(wantedMeans[i]) + deviation)) << i;
    ASSERT_NEAR(outSquares[i], wantedSquares[i], 1e-5 * wantedSquares[i]) << i;
  }
}
INSTANTIATE_TEST_SUITE_P(Kernels, WgmmaGroups, testing::ValuesIn(wgmmaGroupsCases()));

/// Other rows and depth: the columns are those of the heads.
WgmmaMatmulCase reshapedHeads(const WgmmaMatmulCase &one, function_ref<int(int)> upTo) {
  const int tokens = upTo(one.rows / 2);
  return {one.kernel.with({{"kDepth", std::to_string(8 * upTo(one.kernel["kDepth"] / 4))}}), 2 * tokens, one.blocks};
}

/// Two sequences, whose tokens come behind those that the cache has.
class WgmmaHeads : public WgmmaMatmulTest {
protected:
  const int heads = kernel["kHeads"], headSize = kernel["kHeadSize"], capacity = kernel["kCapacity"];
  int batch = 2, tokens = rows / batch;
  const std::vector<int> positions = {3, capacity - tokens};

  /// What part 0, 1 or 2 of the product writes to a tensor [batch, heads, length, headSize] of NaN, from place
  /// first[b] on.
  Expectation part(const Expectation &product, int which, int length, const std::vector<int> &first) const {
    Expectation out(static_cast<size_t>(batch) * heads * length * headSize);
    std::fill(out.values.begin(), out.values.end(), NAN);
    const int width = heads * headSize;
    for (int row = 0; row < rows; ++row)
      for (int col = 0; col < width; ++col) {
        const int b = row / tokens, place = first[b] + row % tokens;
        const size_t from = static_cast<size_t>(row) * cols + which * width + col;
        const size_t to =
            ((static_cast<size_t>(b) * heads + col / headSize) * length + place) * headSize + col % headSize;
        out.values[to] = product.values[from];
        out.magnitudes[to] = product.magnitudes[from];
      }
    return out;
  }
};

TEST_P(WgmmaHeads, SplitsIntoHeadsAndCache) {
  const size_t inCache = static_cast<size_t>(batch) * heads * capacity * headSize;
  TestArray q = output(type, static_cast<size_t>(rows) * heads * headSize);
  TestArray keyCache = output(type, inCache), valueCache = output(type, inCache), places = integers(positions);
  run(kernel, grid(), threads(), sharedBytes(), {q, keyCache, valueCache}, mappedX(), mappedWeight(), bias, places, q,
      keyCache, valueCache, batch, tokens);
  const Expectation expected = product();
  expectClose(q, part(expected, 0, tokens, {0, 0}));
  expectClose(keyCache, part(expected, 1, capacity, positions));
  expectClose(valueCache, part(expected, 2, capacity, positions));
}
INSTANTIATE_TEST_SUITE_P(Kernels, WgmmaHeads, testing::ValuesIn(withRandomShapes(wgmmaHeadsCases(), reshapedHeads)));

} // namespace
} // namespace kiln
