#include "runtime/generation/scoring/Perplexity.h"

#include "support/Diagnostic.h"

#include <algorithm>
#include <cmath>

namespace kiln {

double PerplexityResult::perplexity() const { return std::exp(nll / static_cast<double>(tokensScored)); }

double PerplexityResult::accuracy() const {
  return static_cast<double>(tokensBest) / static_cast<double>(tokensScored);
}

double PerplexityResult::standardError() const {
  if (tokensScored < 2)
    return 0;
  auto count = static_cast<double>(tokensScored);
  double mean = nll / count;
  double variance = std::max(squares / count - mean * mean, 0.0) * count / (count - 1);
  // d exp(x) = exp(x) dx
  return perplexity() * std::sqrt(variance / count);
}

Expected<PerplexityOptions> settledOptions(const PerplexityOptions &options, int64_t context) {
  PerplexityOptions settled = options;
  settled.window = options.window ? options.window : context;
  settled.stride = options.stride ? options.stride : settled.window;
  if (settled.window < 1 || settled.window > context)
    return makeError("--window: expected 1 to the context of " + Twine(context) + " tokens, got " +
                     Twine(settled.window));
  if (settled.stride < 1 || settled.stride > settled.window)
    return makeError("--stride: expected 1 to the window of " + Twine(settled.window) + " tokens, got " +
                     Twine(settled.stride));
  return settled;
}

static Error checkTokens(const Scorer &scorer, ArrayRef<int32_t> tokens) {
  if (tokens.size() < 2)
    return makeError("expected a text of at least 2 tokens, got " + Twine(tokens.size()));
  for (int32_t id : tokens)
    if (id < 0 || id >= scorer.vocabSize())
      return makeError("expected token ids in 0.." + Twine(scorer.vocabSize() - 1) + ", got " + Twine(id));
  return Error::success();
}

static std::vector<ScoreWindow> cutWindows(ArrayRef<int32_t> tokens, size_t window, size_t stride) {
  std::vector<ScoreWindow> windows;
  size_t predictions = tokens.size() - 1; // the last token has no known successor
  size_t scored = 0;                      // predictions covered so far
  for (size_t start = 0; scored < predictions; start += stride) {
    size_t length = std::min(window, predictions - start);
    windows.push_back({tokens.slice(start, length), tokens.slice(start + 1, length), scored - start});
    scored = start + length;
  }
  return windows;
}

/// Adds the scores of one window. Error: a score is not finite.
static Error addScores(PerplexityResult &result, ArrayRef<TokenScore> scores) {
  for (auto [nll, isBest] : scores) {
    ++result.tokensScored;
    result.tokensBest += isBest;
    if (!std::isfinite(nll))
      return makeError(
          formatv("expected finite log-likelihoods, got {0} for token {1} of the text", -nll, result.tokensScored)
              .str());
    result.nll += nll;
    result.squares += nll * nll;
  }
  return Error::success();
}

Expected<PerplexityResult> evaluatePerplexity(Scorer &scorer, ArrayRef<int32_t> tokens,
                                              const PerplexityOptions &options) {
  Expected<PerplexityOptions> settled = settledOptions(options, scorer.contextLength());
  if (!settled)
    return settled.takeError();
  if (Error error = checkTokens(scorer, tokens))
    return error;
  PerplexityResult result;
  result.window = settled->window;
  result.stride = settled->stride;
  std::vector<ScoreWindow> windows = cutWindows(tokens, result.window, result.stride);
  int64_t most = options.batch > 0 ? std::min(options.batch, scorer.maxBatch()) : scorer.maxBatch();
  for (size_t done = 0; done < windows.size();) {
    auto batch = ArrayRef(windows).drop_front(done).take_front(static_cast<size_t>(most));
    auto scores = scorer.score(batch);
    if (!scores)
      return scores.takeError();
    assert(scores->size() == batch.size() && "a scorer that leaves windows out");
    for (ArrayRef<TokenScore> windowScores : *scores) {
      if (Error error = addScores(result, windowScores))
        return error;
      ++done;
      if (options.onWindow)
        options.onWindow(static_cast<int64_t>(done), static_cast<int64_t>(windows.size()), result);
    }
  }
  return result;
}

} // namespace kiln
