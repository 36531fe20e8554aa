#include "runtime/generation/scoring/MultipleChoice.h"

#include "support/Diagnostic.h"

#include <cmath>
#include <numeric>

namespace kiln {

double ChoiceResult::errorOf(double share) const {
  return examples < 2 ? 0 : std::sqrt(share * (1 - share) / static_cast<double>(examples - 1));
}

namespace {

/// An ending behind its context, cut on the left to what the model takes.
struct ChoiceWindow {
  std::vector<int32_t> tokens; ///< one more than the inputs
  size_t firstScored;
  size_t example;

  ScoreWindow view() const {
    ArrayRef<int32_t> all = tokens;
    return {all.drop_back(), all.drop_front(), firstScored};
  }
};

/// Scores some examples at a time. Windows of like length go into one call, which pads them to the longest.
class ChoiceScorer {
public:
  ChoiceScorer(Scorer &scorer, size_t batch) : scorer(scorer), batch(batch) {}

  Error add(ArrayRef<ChoiceExample> examples);

  ChoiceResult result;

private:
  std::vector<ChoiceWindow> windowsOf(ArrayRef<ChoiceExample> examples);
  Error scoreWindows(ArrayRef<ChoiceWindow> windows);
  void judge(ArrayRef<ChoiceExample> examples, ArrayRef<ChoiceWindow> windows);

  Scorer &scorer;
  size_t batch;
  std::vector<double> losses; ///< of each window
};

std::vector<ChoiceWindow> ChoiceScorer::windowsOf(ArrayRef<ChoiceExample> examples) {
  auto most = static_cast<size_t>(scorer.contextLength()) + 1;
  std::vector<ChoiceWindow> windows;
  for (auto [index, example] : llvm::enumerate(examples)) {
    bool isCut = false;
    for (const std::vector<int32_t> &ending : example.endings) {
      std::vector<int32_t> tokens = example.context;
      llvm::append_range(tokens, ending);
      size_t cut = tokens.size() - std::min(tokens.size(), most);
      isCut |= cut > 0;
      tokens.erase(tokens.begin(), tokens.begin() + static_cast<ptrdiff_t>(cut));
      size_t firstScored = tokens.size() - 1 - std::min(ending.size(), tokens.size() - 1);
      windows.push_back({std::move(tokens), firstScored, index});
    }
    result.truncated += isCut;
  }
  return windows;
}

Error ChoiceScorer::scoreWindows(ArrayRef<ChoiceWindow> windows) {
  std::vector<size_t> order(windows.size());
  std::iota(order.begin(), order.end(), size_t(0));
  llvm::stable_sort(order, [&](size_t a, size_t b) { return windows[a].tokens.size() > windows[b].tokens.size(); });
  losses.assign(windows.size(), 0);
  for (ArrayRef<size_t> left = order; !left.empty();) {
    ArrayRef<size_t> some = left.take_front(batch);
    left = left.drop_front(some.size());
    std::vector<ScoreWindow> views;
    for (size_t index : some)
      views.push_back(windows[index].view());
    auto scores = scorer.score(views);
    if (!scores)
      return scores.takeError();
    for (const auto &[index, own] : llvm::zip(some, *scores))
      for (const TokenScore &score : own)
        losses[index] += score.nll;
  }
  return Error::success();
}

void ChoiceScorer::judge(ArrayRef<ChoiceExample> examples, ArrayRef<ChoiceWindow> windows) {
  size_t window = 0;
  for (const ChoiceExample &example : examples) {
    size_t first = window, best = first, bestMean = first;
    auto length = [&](size_t index) { return windows[index].view().inputs.size() - windows[index].firstScored; };
    auto mean = [&](size_t index) { return losses[index] / static_cast<double>(length(index)); };
    for (; window < first + example.endings.size(); ++window) {
      if (losses[window] < losses[best])
        best = window;
      if (mean(window) < mean(bestMean))
        bestMean = window;
      result.tokensScored += static_cast<int64_t>(length(window));
    }
    ++result.examples;
    result.right += best - first == example.label;
    result.rightNormalised += bestMean - first == example.label;
  }
}

Error ChoiceScorer::add(ArrayRef<ChoiceExample> examples) {
  std::vector<ChoiceWindow> windows = windowsOf(examples);
  if (Error error = scoreWindows(windows))
    return error;
  for (const auto &[window, loss] : llvm::zip(windows, losses))
    if (!std::isfinite(loss))
      return makeError(formatv("expected finite log-likelihoods, got {0} for example {1}", -loss,
                               static_cast<size_t>(result.examples) + window.example)
                           .str());
  judge(examples, windows);
  return Error::success();
}

} // namespace

Expected<ChoiceResult> evaluateChoices(Scorer &scorer, ArrayRef<ChoiceExample> examples, const ChoiceOptions &options) {
  if (examples.empty())
    return makeError("expected at least one example, got none");
  int64_t batch = std::min(scorer.maxBatch(), options.batch > 0 ? options.batch : scorer.maxBatch());
  ChoiceScorer choices(scorer, static_cast<size_t>(batch));
  // Enough examples to find windows of like length, and few enough for a running estimate.
  auto step = static_cast<size_t>(std::clamp<int64_t>(batch * 4, 16, 1024));
  while (!examples.empty()) {
    if (Error error = choices.add(examples.take_front(step)))
      return error;
    examples = examples.drop_front(std::min(step, examples.size()));
    if (options.onExamples)
      options.onExamples(choices.result);
  }
  return choices.result;
}

} // namespace kiln
