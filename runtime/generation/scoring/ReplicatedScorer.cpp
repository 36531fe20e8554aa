#include "runtime/generation/scoring/ReplicatedScorer.h"

#include "support/process/Parallel.h"

#include <mutex>

namespace kiln {

namespace {
/// Windows that several threads take in turn, and what scorers say of them.
class SharedWindows {
public:
  /// `most`: how many a thread takes at once.
  SharedWindows(ArrayRef<ScoreWindow> windows, size_t most) : windows(windows), most(most), scores(windows.size()) {}

  /// Scores windows until none are left, or a scorer has failed.
  Error work(Scorer &scorer) {
    if (Error error = scorer.makeCurrent())
      return error;
    while (std::optional<size_t> first = take()) {
      auto scored = scorer.score(windows.slice(*first).take_front(most));
      if (!scored) {
        stop();
        return scored.takeError();
      }
      llvm::move(*scored, scores.begin() + static_cast<ptrdiff_t>(*first));
    }
    return Error::success();
  }

  std::vector<std::vector<TokenScore>> takeScores() { return std::move(scores); }

private:
  std::optional<size_t> take() {
    std::lock_guard lock(mutex);
    size_t first = next;
    next = std::min(next + most, windows.size());
    return first < windows.size() ? std::optional(first) : std::nullopt;
  }

  void stop() {
    std::lock_guard lock(mutex);
    next = windows.size();
  }

  ArrayRef<ScoreWindow> windows;
  size_t most;
  std::vector<std::vector<TokenScore>> scores;
  std::mutex mutex;
  size_t next = 0; ///< the first window that is not taken; guarded by the mutex
};
} // namespace

int64_t ReplicatedScorer::maxBatch() const {
  constexpr int64_t callsOfEach = 8;
  return scorers.front()->maxBatch() * static_cast<int64_t>(scorers.size()) * callsOfEach;
}

Expected<std::vector<std::vector<TokenScore>>> ReplicatedScorer::score(ArrayRef<ScoreWindow> windows) {
  size_t share = std::max<size_t>(llvm::divideCeil(windows.size(), scorers.size()), 1);
  SharedWindows shared(windows, std::min(share, static_cast<size_t>(scorers.front()->maxBatch())));
  if (Error error = runThreads(scorers.size(), [&](size_t i) { return shared.work(*scorers[i]); }))
    return error;
  return shared.takeScores();
}

} // namespace kiln
