// gemv/mma_rows.cuh against a product in double.

#include "kernels/mma/FewRowsTest.h"

namespace kiln {
namespace {

class MmaRowsTest : public FewRowsTest {
protected:
  Dim3 grid() const { return {ceilDivide(cols, 16 * kernel["kWarpsN"])}; }
  int threads() const { return 32 * kernel["kWarpsN"] * kernel["kWarpsK"]; }
  int sharedBytes() const {
    int sums = 4 * kernel["kWarpsK"] * (16 * kernel["kWarpsN"] + 4);
    return kernel["kRows"] * (2 * (kernel["kTileDepth"] + 32) + sums + 8);
  }
};

using MmaNormalizedRows = MmaRowsTest;
TEST_P(MmaNormalizedRows, NormalizeAndMultiply) {
  TestArray scale = random(DType::F32, depth), shift = random(DType::F32, depth);
  run(kernel, grid(), threads(), sharedBytes(), {out}, x, scale, shift, weight, bias, out, rows);
  // The normalised rows are rounded to the element type.
  expectClose(out, product(layerNorm(x.values(), scale.values(), shift.values()).values),
              type == DType::BF16 ? 0x1p-8 : 0x1p-11);
}
INSTANTIATE_TEST_SUITE_P(Kernels, MmaNormalizedRows,
                         testing::ValuesIn(withRandomShapes(mmaNormalizedRowsCases(), reshaped)));

using MmaRows = MmaRowsTest;
TEST_P(MmaRows, MultiplyAndAdd) {
  TestArray skip = random(type, out.size);
  run(kernel, grid(), threads(), sharedBytes(), {out}, x, weight, bias, skip, out, rows);
  Expectation expected = product(x.values());
  addElements(expected, skip.values());
  expectClose(out, expected);
}
INSTANTIATE_TEST_SUITE_P(Kernels, MmaRows, testing::ValuesIn(withRandomShapes(mmaRowsCases(), reshaped)));

} // namespace
} // namespace kiln
