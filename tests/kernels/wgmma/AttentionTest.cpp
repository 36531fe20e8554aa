// attention/wgmma_flash.cuh against softmax attention in double.

#include "kernels/AttentionTest.h"
#include "kernels/wgmma/Cases.h"

namespace kiln {
namespace {

class WgmmaFlash : public AttentionTest {
protected:
  int sharedBytes() const {
    return 128 * ((headSize + 63) / 64) * (kernel["kTileQueries"] + 2 * kernel["kStages"] * kernel["kTileKeys"]);
  }
};

TEST_P(WgmmaFlash, IsSoftmaxAttention) {
  for (int b = 0; b < batch; ++b)
    poisonCache(b, keys);
  TestArray sums = output(DType::F32, out.size);
  run(kernel, {static_cast<uint32_t>(heads), static_cast<uint32_t>(batch), ceilDivide(queries, kernel["kTileQueries"])},
      2 * kernel["kTileQueries"] * kernel["kWays"], sharedBytes(), {sums}, qkv, keyCache, valueCache, position, sums,
      heads, queries, keys, capacity);
  // The weights are rounded to the element type.
  expectClose(sums, expectation(kernel["kCausal"], kernel["kWindow"]), type == DType::BF16 ? 0x1p-8 : 0x1p-11);
}
INSTANTIATE_TEST_SUITE_P(Kernels, WgmmaFlash, testing::ValuesIn(withRandomShapes(wgmmaFlashCases(), reshaped)));

} // namespace
} // namespace kiln
