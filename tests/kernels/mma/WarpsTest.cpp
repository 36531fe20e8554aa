// gemv/mma_warps.cuh against a product in double. tests/kernels/wgmma/RowsTest.cpp compares its bits with
// gemv/wgmma_rows.

#include "kernels/NormedProduct.h"
#include "kernels/mma/Cases.h"
#include "kernels/mma/WarpsLaunch.h"

namespace kiln {
namespace {

class MmaWarpsTest : public KernelTest, public testing::WithParamInterface<MmaMatmulCase> {
protected:
  const Variant &kernel = GetParam().kernel;
  const DType type = kernel.element();
  const int rows = GetParam().rows, cols = kernel["kCols"], depth = kernel["kDepth"];

  TestArray x = random(type, static_cast<size_t>(rows) * depth),
            weight = random(type, static_cast<size_t>(cols) * depth);
  TestArray bias = random(DType::F32, cols), out = output(DType::F32, static_cast<size_t>(rows) * cols);

  Dim3 grid() const { return warpsGrid(kernel, rows); }
  int threads() const { return warpsThreads(kernel); }
  int sharedBytes() const { return warpsSharedBytes(kernel); }
};

using MmaWarps = MmaWarpsTest;
TEST_P(MmaWarps, MultiplyAndAdd) {
  TestArray skip = random(type, out.size);
  run(kernel, grid(), threads(), sharedBytes(), {out}, x, weight, bias, skip, out, rows);
  Expectation expected = matmul(x.values(), weight.values(), rows, cols, depth, /*transposed=*/true);
  addBias(expected, bias.values());
  addElements(expected, skip.values());
  expectClose(out, expected);
}
INSTANTIATE_TEST_SUITE_P(Kernels, MmaWarps, testing::ValuesIn(withRandomShapes(mmaWarpsCases(), reshapedWarps)));

using MmaWarpsGroups = MmaWarpsTest;
TEST_P(MmaWarpsGroups, MergeAndHandOutStatistics) {
  NormedProduct normed{x, weight, bias, rows, cols, depth};
  normed.makeKinds();
  const size_t groupsIn = x.size / 8, groupsOut = out.size / 8;
  TestArray unused = output(DType::F32, rows), sums = output(DType::F32, cols);
  TestArray means = output(DType::F32, groupsIn), squares = output(DType::F32, groupsIn);
  normed.fill(unused, unused, sums);
  NormedProduct::fillGroups(x, depth, type, means, squares);
  TestArray outMeans = output(DType::F32, groupsOut), outSquares = output(DType::F32, groupsOut);
  run(kernel, grid(), threads(), sharedBytes(), {out, outMeans, outSquares}, x, weight, means, squares, sums, bias, out,
      outMeans, outSquares, rows);
  normed.expectNoWorse(out);
  NormedProduct::expectGroupsOf(out, cols, type, outMeans, outSquares);
}
INSTANTIATE_TEST_SUITE_P(Kernels, MmaWarpsGroups, testing::ValuesIn(mmaWarpsGroupsCases()));

} // namespace
} // namespace kiln
