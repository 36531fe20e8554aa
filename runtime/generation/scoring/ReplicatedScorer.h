//===- ReplicatedScorer.h - scoring on several devices --------------------===//
#pragma once

#include "runtime/generation/scoring/Perplexity.h"

namespace kiln {

/// Several scorers of one model, such as one on each GPU, as one scorer.
class ReplicatedScorer : public Scorer {
public:
  /// `scorers`: at least one; they must outlive this one.
  explicit ReplicatedScorer(std::vector<Scorer *> scorers) : scorers(std::move(scorers)) {}

  int64_t vocabSize() const override { return scorers.front()->vocabSize(); }
  int64_t contextLength() const override { return scorers.front()->contextLength(); }
  /// Several calls of every scorer, so that they seldom wait for each other.
  int64_t maxBatch() const override;

  /// Each scorer works in a thread of its own, and takes the next windows, as many as it scores in one call, when it
  /// has scored those before. Neighbours are scored together: callers that sort windows by their length get calls of
  /// windows of like length.
  Expected<std::vector<std::vector<TokenScore>>> score(ArrayRef<ScoreWindow> windows) override;

private:
  std::vector<Scorer *> scorers;
};

} // namespace kiln
