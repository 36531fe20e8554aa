//===- PrefillCall.h - prompts as a call of @prefill ------------------------===//
#pragma once

#include "runtime/execution/Executor.h"

namespace kiln {

/// Prompts of any lengths, one per row. Padding follows the prompt: causal attention hides it from the prompt's tokens,
/// and decoding overwrites it. The length is rounded up, so that few shapes, and few graphs, serve all prompts. Holds
/// the memory that `call` refers to.
struct PrefillCall {
  /// For rows firstRow, firstRow + 1, ...
  PrefillCall(const Executor &executor, int64_t firstRow, ArrayRef<std::vector<int32_t>> prompts);
  PrefillCall(const PrefillCall &) = delete;
  PrefillCall &operator=(const PrefillCall &) = delete;

  std::vector<int32_t> tokens, lengths;
  Executor::Call call;
};

/// Tokens per row of the shape that serves `length`: powers of two up to 128, then multiples of 128; at most `most`.
int64_t prefillBucket(int64_t length, int64_t most);

/// Rows of the shape that decodes `rows` rows: powers of two, at most `most`.
int64_t decodeBucket(int64_t rows, int64_t most);

} // namespace kiln
