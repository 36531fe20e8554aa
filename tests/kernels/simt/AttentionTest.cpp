// attention/simt_flash.cuh and attention/simt_split_kv.cuh against softmax attention in double.

#include "kernels/KernelTest.h"
#include "kernels/simt/Cases.h"

#include <cmath>

namespace kiln {
namespace {

class AttentionTest : public KernelTest, public testing::WithParamInterface<AttentionCase> {
protected:
  const Variant &kernel = GetParam().kernel;
  const DType type = kernel.element();
  const int heads = GetParam().heads, queries = GetParam().queries, keys = GetParam().keys;
  const std::vector<int> &positions = GetParam().positions;
  const int batch = static_cast<int>(positions.size()), headSize = kernel["kHeadSize"];
  int capacity = keys + 9;

  const size_t row =
      static_cast<size_t>(heads) * headSize; // of the output; three of them are a row of the projection
  Tensor qkv = random(type, batch *queries * 3 * row);
  Tensor keyCache = random(type, batch *row *capacity), valueCache = random(type, batch *row *capacity);
  Tensor position = integers(positions);
  Tensor out = output(type, batch *queries *row);

  /// Keys [first, end) that query t of row b sees.
  int visibleEnd(int b, int t, bool isCausal) const {
    return isCausal ? std::min(keys, positions[b] + t + 1) : keys;
  }
  int firstVisible(int b, int t, int window) const {
    return window ? std::max(0, positions[b] + t + 1 - window) : 0;
  }

  /// Makes the cache behind the keys that anything of row b may see NaN.
  void poisonCache(int b, int end) {
    for (int h = 0; h < heads; ++h)
      for (size_t i = static_cast<size_t>(end) * headSize; i < static_cast<size_t>(capacity) * headSize;
           ++i) {
        keyCache.set((b * heads + h) * static_cast<size_t>(capacity) * headSize + i, NAN);
        valueCache.set((b * heads + h) * static_cast<size_t>(capacity) * headSize + i, NAN);
      }
  }

  Expectation expectation(bool isCausal, int window) const {
    const std::vector<double> q = qkv.values(), k = keyCache.values(), v = valueCache.values();
    const size_t cached = static_cast<size_t>(capacity) * headSize;
    Expectation expected(out.size);
    for (int b = 0; b < batch; ++b)
      for (int h = 0; h < heads; ++h)
        for (int t = 0; t < queries; ++t) {
          const size_t token = b * queries + t, head = (b * heads + h) * cached;
          attend(ArrayRef(q).slice(token * 3 * row + h * headSize, headSize), ArrayRef(k).slice(head, cached),
                 ArrayRef(v).slice(head, cached), firstVisible(b, t, window), visibleEnd(b, t, isCausal),
                 expected, token * row + h * headSize);
        }
    return expected;
  }
};

/// Bytes of shared memory as the template's header states them, if they are more than may be static.
int flashDynamicBytes(const Variant &kernel) {
  const int headSize = kernel["kHeadSize"], queries = kernel["kTileQueries"], keys = kernel["kTileKeys"];
  const int bytes = 4 * ((queries + keys) * (headSize + 4) + keys * headSize + queries * (keys + 4));
  return bytes > 48 * 1024 ? bytes : 0;
}

using Flash = AttentionTest;
TEST_P(Flash, IsSoftmaxAttention) {
  for (int b = 0; b < batch; ++b)
    poisonCache(b, keys);
  run(kernel,
      {ceilDivide(queries, kernel["kTileQueries"]), static_cast<uint32_t>(heads),
       static_cast<uint32_t>(batch)},
      kernel["kThreads"], flashDynamicBytes(kernel), {out}, qkv, keyCache, valueCache, position, out, heads,
      queries, keys, capacity);
  expectClose(out, expectation(kernel["kCausal"], kernel["kWindow"]), 2e-6);
}
INSTANTIATE_TEST_SUITE_P(Kernels, Flash, testing::ValuesIn(flashCases()));

using Split = AttentionTest;
TEST_P(Split, IsSoftmaxAttentionAndReplays) {
  for (int b = 0; b < batch; ++b)
    poisonCache(b, positions[b] + 1);
  const uint32_t splits = ceilDivide(capacity, kernel["kChunk"]);
  Tensor parts = output(DType::F32, static_cast<size_t>(batch) * heads * splits * (headSize + 4));
  Tensor arrivals = zeros(DType::I32, static_cast<size_t>(batch) * heads);
  // The schedules follow each other without anybody resetting the counters.
  run(kernel, {splits, static_cast<uint32_t>(heads), static_cast<uint32_t>(batch)}, 32 * kernel["kWarps"], 0,
      {out}, qkv, keyCache, valueCache, position, parts, arrivals, out, heads, capacity);
  expectClose(out, expectation(/*isCausal=*/true, /*window=*/0), 2e-6);
  EXPECT_EQ(arrivals.values(), std::vector<double>(arrivals.size, 0));
}
INSTANTIATE_TEST_SUITE_P(Kernels, Split, testing::ValuesIn(splitCases()));

} // namespace
} // namespace kiln
