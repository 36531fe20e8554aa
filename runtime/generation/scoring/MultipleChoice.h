//===- MultipleChoice.h - choosing among endings of a text -------------------===//
//
// HellaSwag as llm.c and most papers score it: the model chooses the ending whose tokens, behind the context, have the
// largest sum of log-probabilities (acc), or the largest mean (acc_norm). Of equals the first is chosen.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "formats/LlmcChoices.h"
#include "runtime/generation/scoring/Perplexity.h"

namespace kiln {

struct ChoiceResult {
  int64_t examples = 0;
  int64_t right = 0;           ///< by the sum
  int64_t rightNormalised = 0; ///< by the mean
  int64_t truncated = 0;       ///< examples that lost the begin of their context, which was too long for the model
  int64_t tokensScored = 0;    ///< of endings

  double accuracy() const { return share(right); }
  double normalisedAccuracy() const { return share(rightNormalised); }
  double accuracyError() const { return errorOf(accuracy()); }
  double normalisedAccuracyError() const { return errorOf(normalisedAccuracy()); }

private:
  double share(int64_t count) const { return static_cast<double>(count) / static_cast<double>(examples); }
  /// Standard error of a share, if examples are independent; 0 for a single one.
  double errorOf(double share) const;
};

struct ChoiceOptions {
  int64_t batch = 0; ///< windows in one call; 0: as many as the scorer takes
  /// Called from time to time, and at the end, with the result so far.
  std::function<void(const ChoiceResult &)> onExamples = nullptr;
};

/// Error: no examples, a score that is not finite, or an error of the scorer.
Expected<ChoiceResult> evaluateChoices(Scorer &scorer, ArrayRef<ChoiceExample> examples, const ChoiceOptions &options);

} // namespace kiln
