#include "runtime/generation/ranks/RankThreads.h"

#include "support/process/Parallel.h"

namespace kiln {

Expected<std::unique_ptr<RankThreads>> RankThreads::start(size_t ranks, std::function<Error(size_t)> onStart,
                                                          std::function<void()> onFailure) {
  std::unique_ptr<RankThreads> all(new RankThreads(std::move(onStart), std::move(onFailure)));
  for (size_t rank = 1; rank < ranks; ++rank) {
    std::optional<std::thread> thread = startThread([raw = all.get(), rank] { raw->serve(rank); });
    if (!thread)
      return makeError("the system refuses a thread for rank " + Twine(rank));
    all->threads.push_back(std::move(*thread));
  }
  return all;
}

RankThreads::~RankThreads() {
  {
    std::lock_guard lock(mutex);
    isEnding = true;
  }
  changed.notify_all();
  for (std::thread &thread : threads)
    thread.join();
}

/// Keeps the error of the rank that failed first: those of the others may only follow from it.
void RankThreads::note(Error error) {
  if (!error)
    return;
  std::vector<Diagnostic> diagnostics = takeDiagnostics(std::move(error));
  bool isFirst = false;
  {
    std::lock_guard lock(mutex);
    isFirst = !failure;
    if (isFirst)
      failure = std::move(diagnostics);
  }
  if (isFirst)
    onFailure();
}

void RankThreads::serve(size_t rank) {
  note(onStart(rank));
  for (uint64_t served = 0;; ++served) {
    function_ref<Error(size_t)> own;
    {
      std::unique_lock lock(mutex);
      changed.wait(lock, [&] { return isEnding || calls > served; });
      if (calls <= served)
        return;
      own = work;
    }
    note(own(rank));
    std::lock_guard lock(mutex);
    if (--unfinished == 0)
      changed.notify_all();
  }
}

Error RankThreads::run(function_ref<Error(size_t)> body) {
  {
    std::lock_guard lock(mutex);
    if (failure)
      return llvm::make_error<DiagnosticError>(*failure);
    work = body;
    unfinished = threads.size();
    ++calls;
  }
  changed.notify_all();
  note(body(0));
  std::unique_lock lock(mutex);
  changed.wait(lock, [&] { return unfinished == 0; });
  if (failure)
    return llvm::make_error<DiagnosticError>(*failure);
  return Error::success();
}

} // namespace kiln
