// attention/simt_flash.cuh and attention/simt_split_kv.cuh against softmax attention in double.

#include "kernels/AttentionTest.h"
#include "kernels/simt/Cases.h"

namespace kiln {
namespace {

/// The bytes of shared memory that the template's header states, if they exceed the limit for static memory; else 0.
int flashDynamicBytes(const Variant &kernel) {
  const int headSize = kernel["kHeadSize"], queries = kernel["kTileQueries"], keys = kernel["kTileKeys"];
  const int bytes = 4 * ((queries + keys) * (headSize + 4) + keys * headSize + queries * (keys + 4));
  return bytes > 48 * 1024 ? bytes : 0;
}

using Flash = AttentionTest;
TEST_P(Flash, IsSoftmaxAttention) {
  for (int b = 0; b < batch; ++b)
    poisonCache(b, keys);
  run(kernel, {ceilDivide(queries, kernel["kTileQueries"]), static_cast<uint32_t>(heads), static_cast<uint32_t>(batch)},
      kernel["kThreads"], flashDynamicBytes(kernel), {out}, qkv, keyCache, valueCache, position, out, heads, queries,
      keys, capacity);
  expectClose(out, expectation(kernel["kCausal"], kernel["kWindow"]), 2e-6);
}
INSTANTIATE_TEST_SUITE_P(Kernels, Flash, testing::ValuesIn(withRandomShapes(flashCases(), reshaped)));

using NaiveFlash = AttentionTest;
TEST_P(NaiveFlash, IsSoftmaxAttention) {
  for (int b = 0; b < batch; ++b)
    poisonCache(b, keys);
  const int tile = kernel["kTile"];
  run(kernel, {ceilDivide(queries, tile), static_cast<uint32_t>(heads), static_cast<uint32_t>(batch)}, tile * tile, 0,
      {out}, qkv, keyCache, valueCache, position, out, heads, queries, keys, capacity);
  expectClose(out, expectation(kernel["kCausal"], kernel["kWindow"]), 2e-6);
}
INSTANTIATE_TEST_SUITE_P(Kernels, NaiveFlash, testing::ValuesIn(withRandomShapes(naiveFlashCases(), reshaped)));

using Split = AttentionTest;
TEST_P(Split, IsSoftmaxAttentionAndReplays) {
  const int window = kernel["kWindow"];
  for (int b = 0; b < batch; ++b) {
    poisonCache(b, positions[b] + 1);
    poisonCache(b, 0, firstVisible(b, 0, window));
  }
  const uint32_t splits = ceilDivide(capacity, kernel["kChunk"]);
  TestArray parts = output(DType::F32, static_cast<size_t>(batch) * heads * splits * (headSize + 4));
  TestArray arrivals = zeros(DType::I32, static_cast<size_t>(batch) * heads);
  // The schedules follow each other without resetting the counters.
  run(kernel, {splits, static_cast<uint32_t>(heads), static_cast<uint32_t>(batch)}, 32 * kernel["kWarps"], 0, {out},
      qkv, keyCache, valueCache, position, parts, arrivals, out, heads, capacity);
  expectClose(out, expectation(/*isCausal=*/true, window), 2e-6);
  EXPECT_EQ(arrivals.values(), std::vector<double>(arrivals.size, 0));
}
INSTANTIATE_TEST_SUITE_P(Kernels, Split, testing::ValuesIn(withRandomShapes(splitCases(), reshaped)));

} // namespace
} // namespace kiln
