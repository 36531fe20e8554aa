// gemv/mma_warps.cuh against a product in double. tests/kernels/wgmma/RowsTest.cpp compares its bits with
// gemv/wgmma_rows.

#include "kernels/NormedProduct.h"
#include "kernels/mma/FewRowsTest.h"
#include "kernels/mma/WarpsLaunch.h"

namespace kiln {
namespace {

class MmaWarpsTest : public FewRowsTest {
protected:
  Dim3 grid() const { return warpsGrid(kernel, rows); }
  int threads() const { return warpsThreads(kernel); }
  int sharedBytes() const { return warpsSharedBytes(kernel); }
};

using MmaWarps = MmaWarpsTest;
TEST_P(MmaWarps, MultiplyAndAdd) {
  TestArray skip = random(type, out.size);
  run(kernel, grid(), threads(), sharedBytes(), {out}, x, weight, bias, skip, out, rows);
  Expectation expected = product(x.values());
  addElements(expected, skip.values());
  expectClose(out, expected);
}
INSTANTIATE_TEST_SUITE_P(Kernels, MmaWarps, testing::ValuesIn(withRandomShapes(mmaWarpsCases(), reshapedWarps)));

using MmaWarpsGroups = MmaWarpsTest;
TEST_P(MmaWarpsGroups, MergeAndHandOutStatistics) {
  NormedProduct normed{x, weight, bias, rows, cols, depth};
  auto launch = [&](NormedProduct::Groups g) {
    run(kernel, grid(), threads(), sharedBytes(), g.outputs(), x, weight, g.means, g.squares, g.sums, bias, g.out,
        g.outMeans, g.outSquares, rows);
  };
  normed.expectGroups(type, [&](size_t size) { return output(DType::F32, size); }, launch);
}
INSTANTIATE_TEST_SUITE_P(Kernels, MmaWarpsGroups, testing::ValuesIn(mmaWarpsGroupsCases()));

} // namespace
} // namespace kiln
