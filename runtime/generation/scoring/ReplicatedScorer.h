//===- ReplicatedScorer.h - scoring on several devices --------------------===//
#pragma once

#include "runtime/generation/scoring/Perplexity.h"

namespace kiln {

/// Several scorers of one model, such as one on each GPU, as one that takes as many windows as all of them together.
class ReplicatedScorer : public Scorer {
public:
  /// `scorers`: at least one; they must outlive this one.
  explicit ReplicatedScorer(std::vector<Scorer *> scorers) : scorers(std::move(scorers)) {}

  int64_t vocabSize() const override { return scorers.front()->vocabSize(); }
  int64_t contextLength() const override { return scorers.front()->contextLength(); }
  int64_t maxBatch() const override { return scorers.front()->maxBatch() * static_cast<int64_t>(scorers.size()); }

  /// Gives each scorer the same number of windows, neighbours first: callers that sort windows by their length get
  /// calls of windows of like length. Each scorer works in a thread of its own.
  Expected<std::vector<std::vector<TokenScore>>> score(ArrayRef<ScoreWindow> windows) override;

private:
  std::vector<Scorer *> scorers;
};

} // namespace kiln
