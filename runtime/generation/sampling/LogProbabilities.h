//===- LogProbabilities.h - how probable a chosen token was ----------------===//
#pragma once

#include "support/ADT.h"

namespace kiln {

struct TokenLogProbability {
  int32_t token = 0;
  float logProbability = 0; ///< natural logarithm; -infinity for a masked token
};

/// A chosen token, and the most probable tokens in its place.
struct ChosenLogProbabilities {
  TokenLogProbability chosen;
  std::vector<TokenLogProbability> top; ///< from the most probable one on; the lower id first among equals
};

/// The log-probability of `token` and of the `count` most probable tokens, or of all if there are fewer: of the softmax
/// of the logits as the model gives them, whatever temperature and filters then do. The logits have a finite one, and
/// no NaN or +infinity.
ChosenLogProbabilities logProbabilities(ArrayRef<float> logits, int32_t token, int64_t count);

} // namespace kiln
