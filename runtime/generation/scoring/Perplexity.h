//===- Perplexity.h - scoring a text with a model ---------------------------===//
//
// A text longer than the context is scored in windows, as in Hugging Face's guide to the perplexity of
// fixed-length models: a window of W tokens starts every S tokens, S <= W, and each token is scored once, in
// the first window that predicts it. The last token of a window predicts one too, the first after it. So
// window i feeds tokens iS .. iS+W-1 and scores those of iS+1 .. iS+W that no window before has scored; with
// S = W every token of the text but its first is scored, those at the start of a window with the least
// context.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "support/ADT.h"

namespace kiln {

/// One window: `targets[i]` is the token after `inputs[i]`.
struct ScoreWindow {
  ArrayRef<int32_t> inputs;
  ArrayRef<int32_t> targets;
  size_t firstScored = 0; ///< only targets from here on count
};

/// What the model says of a target.
struct TokenScore {
  double nll = 0;      ///< negative log-likelihood, in nats
  bool isBest = false; ///< the model's best token
};

/// The model interface that scoring needs.
class Scorer {
public:
  virtual ~Scorer() = default;

  virtual int64_t vocabSize() const = 0;
  virtual int64_t contextLength() const = 0; ///< the longest window
  virtual int64_t maxBatch() const = 0;      ///< the most windows in one call

  /// Prepares the calling thread for calls of this scorer: needed in a thread other than the one that made it.
  virtual Error makeCurrent() { return Error::success(); }

  /// The scores of the scored targets of each window, in order: `targets.size() - firstScored` of them a window.
  /// Windows do not depend on each other.
  virtual Expected<std::vector<std::vector<TokenScore>>> score(ArrayRef<ScoreWindow> windows) = 0;
};

struct PerplexityResult {
  double nll = 0; ///< sum of negative log-likelihoods, in nats
  int64_t tokensScored = 0;
  int64_t tokensBest = 0; ///< how many of them the model has as its best token
  int64_t window = 0;
  int64_t stride = 0;
  double squares = 0; ///< sum of the squares of the summands of nll

  double perplexity() const;
  /// The share of tokens that greedy generation would have chosen.
  double accuracy() const;
  /// Standard error of the perplexity, to first order, under the assumption of independent tokens; 0 for a single one.
  double standardError() const;
};

struct PerplexityOptions {
  int64_t window = 0; ///< tokens; 0: the context
  int64_t stride = 0; ///< tokens; 0: the window
  /// Called after every window, counted from 1, of `windowCount`, with the result so far.
  std::function<void(int64_t window, int64_t windowCount, const PerplexityResult &)> onWindow = nullptr;
  int64_t batch = 0; ///< windows in one call; 0: as many as the scorer takes
};

/// The same with the window and stride that 0 stands for. Error: a window beyond the context, a stride beyond the
/// window or below 1; the message names the flag of `kiln eval`.
Expected<PerplexityOptions> settledOptions(const PerplexityOptions &options, int64_t context);

/// Scores a text. Error: as of settledOptions; fewer than two tokens, an id that the model does not know, a score that
/// is not finite, or an error of the scorer.
Expected<PerplexityResult> evaluatePerplexity(Scorer &scorer, ArrayRef<int32_t> tokens,
                                              const PerplexityOptions &options);

} // namespace kiln
