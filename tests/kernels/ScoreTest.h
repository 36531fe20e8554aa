//===- ScoreTest.h - log-probabilities of rows of logits ---------------------------===//
#pragma once

#include "kernels/KernelTest.h"

namespace kiln {

/// The arguments and results of a kernel that scores rows, and what they should be.
struct ScoredRows {
  TestArray targets, logProbability, best, bestLogProbability;

  std::vector<TestArray> outputs() const { return {logProbability, best, bestLogProbability}; }

  /// Expects the scores of these logits, each of which may be wrong by `tolerance` times its magnitude.
  void expectScoresOf(const Expectation &logits, double tolerance = 1e-6) const;
};

/// Makes the columns of a weight [cols, depth] equal to those of its first third, so that every logit occurs again.
void repeatColumns(TestArray &weight, int cols, int depth);

/// Targets of `rows` rows of `cols` logits: random ones, and some that are none, below and above the vocabulary.
std::vector<int> someTargets(int rows, int cols);

} // namespace kiln
