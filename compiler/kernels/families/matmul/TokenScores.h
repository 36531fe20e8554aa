//===- TokenScores.h - log-probabilities and best tokens of rows of logits -----------===//
#pragma once

#include "ir/IR.h"

namespace kiln {

/// What a kernel computes of rows of logits in one pass; each of the ops may be missing, but not all.
struct TokenScores {
  const Value *logits = nullptr;
  const Op *ofTarget = nullptr; ///< log_probability of ids that come from elsewhere
  const Op *best = nullptr;     ///< argmax
  const Op *ofBest = nullptr;   ///< log_probability of these ids
};

/// Whether the op scores tokens: log_probability or argmax.
bool isScore(const Op &op);
/// The length of the first rows of logits by which a function scores tokens, if it is not the vocabulary's size.
std::optional<Dim> otherLogits(const Function &function, int64_t vocabulary);
/// Whether a region scores tokens by a matmul's result.
bool hasScoredProduct(const Op &op);

/// The scores that an op computes, plain or fused: each of them once, with constant row lengths, and nothing behind
/// them. In front of them the region may have anything that it does not yield.
std::optional<TokenScores> tokenScores(const Op &op);

} // namespace kiln
