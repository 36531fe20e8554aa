//===- AttentionTest.h - attention kernels against softmax attention in double --===//
#pragma once

#include "kernels/AttentionCase.h"
#include "kernels/KernelTest.h"

#include <cmath>

namespace kiln {

/// Queries come from a packed projection; keys and values come from a cache with room after them.
class AttentionTest : public KernelTest, public testing::WithParamInterface<AttentionCase> {
protected:
  const Variant &kernel = GetParam().kernel;
  const DType type = kernel.element();
  const int heads = GetParam().heads, queries = GetParam().queries, keys = GetParam().keys;
  const std::vector<int> &positions = GetParam().positions;
  const int batch = static_cast<int>(positions.size()), headSize = kernel["kHeadSize"];
  int capacity = keys + 9;

  const size_t row = static_cast<size_t>(heads) *
                     headSize; // elements of a row of the output; a row of the projection has three times as many
  TestArray qkv = random(type, batch *queries * 3 * row);
  TestArray keyCache = random(type, batch *row *capacity), valueCache = random(type, batch *row *capacity);
  TestArray position = integers(positions);
  TestArray out = output(type, batch *queries *row);

  /// The end of the keys that query t of row b sees; the start is `first`.
  int visibleEnd(int b, int t, bool isCausal) const { return isCausal ? std::min(keys, positions[b] + t + 1) : keys; }
  int firstVisible(int b, int t, int window) const { return window ? std::max(0, positions[b] + t + 1 - window) : 0; }

  /// Fills the cache with NaN after the last key that any query of row b may see.
  void poisonCache(int b, int end) { poisonCache(b, end, capacity); }
  /// Fills keys first .. end with NaN.
  void poisonCache(int b, int first, int end) {
    for (int h = 0; h < heads; ++h)
      for (size_t i = static_cast<size_t>(first) * headSize; i < static_cast<size_t>(end) * headSize; ++i) {
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
                 ArrayRef(v).slice(head, cached), firstVisible(b, t, window), visibleEnd(b, t, isCausal), expected,
                 token * row + h * headSize);
        }
    return expected;
  }
};

/// Other sequences whose queries see their own token and all before it.
inline AttentionCase reshaped(const AttentionCase &one, function_ref<int(int)> upTo) {
  AttentionCase other = one;
  other.heads = upTo(3);
  bool isFixed = StringRef(one.kernel.name()).contains("split_kv"); // the kernel's setting
  other.queries = isFixed ? one.queries : upTo(2 * one.queries);
  other.keys = 0;
  for (int &position : other.positions) {
    position = upTo(2 * one.keys) - 1;
    other.keys = std::max(other.keys, position + other.queries);
  }
  return other;
}

} // namespace kiln
