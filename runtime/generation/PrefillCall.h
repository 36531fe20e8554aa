//===- PrefillCall.h - prompts as a call of @prefill ------------------------===//
#pragma once

#include "runtime/execution/Executor.h"

namespace kiln {

/// Prompts of any lengths, one a row. Padding stands behind a prompt: causal attention keeps it from the rows before
/// it, and decoding writes over it. The length is rounded up, so that few shapes, and graphs, serve all prompts. Holds
/// what `call` refers to.
struct PrefillCall {
  /// For rows firstRow, firstRow + 1, ...
  PrefillCall(const Executor &executor, int64_t firstRow, ArrayRef<std::vector<int32_t>> prompts);
  PrefillCall(const PrefillCall &) = delete;
  PrefillCall &operator=(const PrefillCall &) = delete;

  std::vector<int32_t> tokens, lengths;
  Executor::Call call;
};

/// Tokens a row of the shape that serves `length`: powers of two up to 128, then multiples of 128; `most` at most.
int64_t prefillBucket(int64_t length, int64_t most);

/// Rows of the shape that decodes `rows` rows: powers of two, `most` at most.
int64_t decodeBucket(int64_t rows, int64_t most);

} // namespace kiln
