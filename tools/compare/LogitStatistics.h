//===- LogitStatistics.h - how far two sets of logits are apart -----------------===//
//
// The figures are those of llama.cpp's `perplexity --kl-divergence`: of each position, the Kullback-Leibler divergence
// KL(A||B) = sum of p_A (log p_A - log p_B) over the vocabulary, in nats, and whether both have the same best token.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/generation/scoring/Perplexity.h"

namespace kiln {

/// What two rows of logits say.
struct RowComparison {
  double divergence = 0; ///< KL(A||B), nats
  bool sameBest = false;
  double largest = 0; ///< the largest difference of a logit, of id `largestId`
  int32_t largestId = 0;
  /// Negative log-likelihood of the target by A and by B, nats.
  double nllA = 0, nllB = 0;
  bool isFinite = true; ///< of all logits; if not, nothing else holds
};

/// Compares rows of one length. `target`: an id, or negative for none.
RowComparison compareRows(ArrayRef<float> a, ArrayRef<float> b, int32_t target);

/// The figures of many rows.
class LogitStatistics {
public:
  void add(const RowComparison &row, int64_t sequence, int64_t position, int32_t target);

  int64_t rows() const { return static_cast<int64_t>(divergences.size()); }
  double meanDivergence() const;
  /// Standard error of the mean, if rows are independent; 0 for a single one.
  double divergenceError() const;
  /// The least divergence that the share (0 to 1) of the rows does not exceed; 1: the largest. There must be rows.
  double divergenceQuantile(double share) const;
  double agreement() const { return static_cast<double>(sameBest) / static_cast<double>(rows()); }

  /// The largest difference of a logit, and where it is.
  double largest = 0;
  int64_t largestSequence = 0, largestPosition = 0;
  int32_t largestId = 0;
  PerplexityResult a, b; ///< of the targets

private:
  std::vector<double> divergences;
  int64_t sameBest = 0;
};

} // namespace kiln
