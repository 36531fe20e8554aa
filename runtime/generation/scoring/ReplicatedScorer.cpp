#include "runtime/generation/scoring/ReplicatedScorer.h"

#include "support/Diagnostic.h"
#include "support/Parallel.h"

#include <mutex>

namespace kiln {

namespace {
/// Windows that several threads take in turn, and what scorers say of them.
class SharedWindows {
public:
  /// `most`: how many a thread takes at once.
  SharedWindows(ArrayRef<ScoreWindow> windows, size_t most) : windows(windows), most(most), scores(windows.size()) {}

  /// Scores windows until none are left, or a scorer has failed.
  void work(Scorer &scorer) {
    Error error = scorer.makeCurrent();
    while (!error) {
      std::optional<size_t> first = take();
      if (!first)
        return;
      auto scored = scorer.score(windows.slice(*first).take_front(most));
      if (scored)
        llvm::move(*scored, scores.begin() + static_cast<ptrdiff_t>(*first));
      else
        error = scored.takeError();
    }
    std::lock_guard lock(mutex);
    failure = llvm::joinErrors(std::move(failure), std::move(error));
    next = windows.size();
  }

  /// What has come of it, when no thread works any more.
  Expected<std::vector<std::vector<TokenScore>>> result() {
    if (failure)
      return std::move(failure);
    return std::move(scores);
  }

private:
  std::optional<size_t> take() {
    std::lock_guard lock(mutex);
    size_t first = next;
    next = std::min(next + most, windows.size());
    return first < windows.size() ? std::optional(first) : std::nullopt;
  }

  ArrayRef<ScoreWindow> windows;
  size_t most;
  std::vector<std::vector<TokenScore>> scores;
  std::mutex mutex; ///< guards the members below
  size_t next = 0;
  Error failure = Error::success();
};
} // namespace

int64_t ReplicatedScorer::maxBatch() const {
  constexpr int64_t callsOfEach = 8;
  return scorers.front()->maxBatch() * static_cast<int64_t>(scorers.size()) * callsOfEach;
}

Expected<std::vector<std::vector<TokenScore>>> ReplicatedScorer::score(ArrayRef<ScoreWindow> windows) {
  size_t share = std::max<size_t>(llvm::divideCeil(windows.size(), scorers.size()), 1);
  SharedWindows shared(windows, std::min(share, static_cast<size_t>(scorers.front()->maxBatch())));
  std::vector<std::thread> threads;
  for (Scorer *scorer : ArrayRef(scorers).drop_front())
    if (auto thread = startThread([&shared, scorer] { shared.work(*scorer); }))
      threads.push_back(std::move(*thread)); // without a thread, the other scorers have more to do
  shared.work(*scorers.front());
  for (std::thread &thread : threads)
    thread.join();
  return shared.result();
}

} // namespace kiln
