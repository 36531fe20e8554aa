//===- RankThreads.h - the same work on all ranks at the same time --------===//
#pragma once

#include "support/ADT.h"
#include "support/Diagnostic.h"

#include <condition_variable>
#include <mutex>
#include <thread>

namespace kiln {

/// A thread for each rank of a model but the first, which the caller's thread serves.
class RankThreads {
public:
  /// `onStart` is called first in each of the threads. `onFailure` is called once, when the first rank has failed, in
  /// its thread: it must make the others, which may wait for that rank, fail, too. Error: the system refuses a thread.
  static Expected<std::unique_ptr<RankThreads>> start(size_t ranks, std::function<Error(size_t rank)> onStart,
                                                      std::function<void()> onFailure);
  ~RankThreads();

  /// Calls `work` for all ranks, and returns when all calls have returned. Error: that of the rank that failed first,
  /// in this call or in one before.
  Error run(function_ref<Error(size_t rank)> work);

private:
  RankThreads(std::function<Error(size_t)> onStart, std::function<void()> onFailure)
      : onStart(std::move(onStart)), onFailure(std::move(onFailure)) {}

  void serve(size_t rank);
  void note(Error error);

  std::function<Error(size_t)> onStart;
  std::function<void()> onFailure;

  std::mutex mutex; ///< guards the members below
  std::condition_variable changed;
  function_ref<Error(size_t)> work;
  uint64_t calls = 0;    ///< of run
  size_t unfinished = 0; ///< threads that have work of this call
  bool isEnding = false;
  std::optional<std::vector<Diagnostic>> failure; ///< the first one
  std::vector<std::thread> threads;
};

} // namespace kiln
