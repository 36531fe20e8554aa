// attention/wgmma_flash.cuh against softmax attention in double.

#include "kernels/AttentionTest.h"
#include "kernels/wgmma/Cases.h"

namespace kiln {
namespace {

class WgmmaFlash : public AttentionTest {
protected:
  void SetUp() override {
    if (target() != "sm_90a")
      GTEST_SKIP() << "expected a GPU with wgmma, sm_90a, got one of " << target();
  }

  static int sharedBytes(const Variant &kernel, int headSize) {
    const int stages = kernel["kStages"], ways = kernel["kWays"], tileQueries = kernel["kTileQueries"];
    const int rows = tileQueries * ways + 2 * stages * kernel["kTileKeys"];
    const int kept = kernel["kRangeKeys"] == 0 ? 0 : tileQueries * (4 * headSize + 32) + 8;
    return (128 * ((headSize + 63) / 64) * rows + kept + 8 * (4 * stages + ways + 1) + 1023) / 1024 * 1024;
  }

  /// The first `tokens` of `most` rows of every head.
  MappedArray mapped(const TestArray &array, int tokens, int most, int boxRows) const {
    const auto row = static_cast<uint64_t>(headSize) * 2;
    return {array,
            {row / 2, static_cast<uint64_t>(tokens), static_cast<uint64_t>(batch) * heads},
            {row, row * most},
            {64, static_cast<uint32_t>(boxRows), 1}};
  }
  /// The projection's queries as split heads.
  MappedArray mappedQueries() {
    TestArray split = output(type, batch * queries * row);
    const std::vector<double> from = qkv.values();
    for (int b = 0; b < batch; ++b)
      for (int h = 0; h < heads; ++h)
        for (int t = 0; t < queries; ++t)
          for (int d = 0; d < headSize; ++d)
            split.set(((static_cast<size_t>(b) * heads + h) * queries + t) * headSize + d,
                      from[(static_cast<size_t>(b) * queries + t) * 3 * row + h * headSize + d]);
    return mapped(split, queries, queries, kernel["kTileQueries"]);
  }
  MappedArray mappedCache(const TestArray &cache, int tokens) const {
    return mapped(cache, tokens, capacity, kernel["kTileKeys"]);
  }

  /// What a variant of the kernel gives, with maps of so many rows of the cache.
  TestArray attended(const Variant &variant, int rows) {
    TestArray sums = output(DType::F32, out.size);
    const int ways = variant["kWays"];
    cluster = static_cast<uint32_t>(ways);
    run(variant,
        {static_cast<uint32_t>(heads * ways), static_cast<uint32_t>(batch),
         ceilDivide(queries, kernel["kTileQueries"] * ways)},
        2 * kernel["kTileQueries"] + 32 * (variant["kRoles"] - 1), sharedBytes(variant, headSize), {sums},
        mappedQueries(), mappedCache(keyCache, rows), mappedCache(valueCache, rows), position, sums, heads, queries,
        keys);
    return sums;
  }

  void expectSoftmaxAttention(const Variant &variant, int rows) {
    TestArray sums = attended(variant, rows);
    // The weights are rounded to the element type.
    expectClose(sums, expectation(kernel["kCausal"], kernel["kWindow"]), type == DType::BF16 ? 0x1p-8 : 0x1p-11);
  }
};

TEST_P(WgmmaFlash, IsSoftmaxAttention) {
  for (int b = 0; b < batch; ++b)
    poisonCache(b, keys);
  expectSoftmaxAttention(kernel.with({{"kPastKeys", "false"}}), keys);
}

TEST_P(WgmmaFlash, ReadsNothingPastTheKeys) {
  for (int b = 0; b < batch; ++b)
    poisonCache(b, visibleEnd(b, queries - 1, kernel["kCausal"]));
  expectSoftmaxAttention(kernel, capacity);
}

/// Kernels whose ranges have a way each.
class WgmmaFlashWays : public WgmmaFlash {};

TEST_P(WgmmaFlashWays, OneWayGivesTheSameBits) {
  const TestArray apart = attended(kernel, capacity);
  for (const char *roles : {"1", "2"}) {
    const TestArray inOrder = attended(kernel.with({{"kWays", "1"}, {"kRoles", roles}, {"kResident", "1"}}), capacity);
    EXPECT_TRUE(apart.bytes() == inOrder.bytes()) << "with kRoles = " << roles;
  }
}

static std::vector<AttentionCase> withWays(std::vector<AttentionCase> cases) {
  llvm::erase_if(cases, [](const AttentionCase &one) { return one.kernel["kWays"] == 1; });
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Kernels, WgmmaFlashWays, testing::ValuesIn(withWays(wgmmaFlashCases())));
INSTANTIATE_TEST_SUITE_P(Kernels, WgmmaFlash, testing::ValuesIn(withRandomShapes(wgmmaFlashCases(), reshaped)));

} // namespace
} // namespace kiln
