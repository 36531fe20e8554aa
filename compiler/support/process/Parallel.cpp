#include "support/process/Parallel.h"

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <system_error>

namespace kiln {

namespace {

/// A loop whose calls several threads take in turn.
struct Loop {
  size_t count;
  function_ref<void(size_t)> body;
  std::atomic<size_t> next = 0;
  size_t helpers = 0; ///< threads of the pool that work on it; guarded by the pool's mutex

  void run() {
    for (size_t i; (i = next++) < count;)
      body(i);
  }
};

/// Threads that wait for loops. The caller works on its own loop too, so that it finishes even if no thread could be
/// started.
class ThreadPool {
public:
  ThreadPool();
  size_t threads() const { return started + 1; }
  void run(Loop &loop);

private:
  void work();

  std::mutex mutex;
  std::condition_variable hasLoop, helperLeft;
  std::vector<Loop *> loops; ///< loops that may have calls left
  size_t started = 0;
};

thread_local bool isInLoop = false;

} // namespace

std::optional<std::thread> startThread(std::function<void()> body) {
  try {
    return std::thread(std::move(body));
  } catch (const std::system_error &) {
    return std::nullopt;
  }
}

Error runThreads(size_t count, function_ref<Error(size_t)> work) {
  Error failure = Error::success();
  std::mutex mutex; // guards the failure
  auto run = [&](size_t i) {
    Error error = work(i);
    std::lock_guard lock(mutex);
    failure = llvm::joinErrors(std::move(failure), std::move(error));
  };
  std::vector<std::thread> threads;
  std::vector<size_t> own; // what the calling thread does
  if (count > 0)
    own.push_back(0);
  for (size_t i = 1; i < count; ++i)
    if (auto thread = startThread([&run, i] { run(i); }))
      threads.push_back(std::move(*thread));
    else
      own.push_back(i);
  for (size_t i : own)
    run(i);
  for (std::thread &thread : threads)
    thread.join();
  return failure;
}

ThreadPool::ThreadPool() {
  for (size_t wanted = std::thread::hardware_concurrency(); started + 1 < wanted; ++started) {
    std::optional<std::thread> thread = startThread([this] { work(); });
    if (!thread)
      break;
    thread->detach(); // it waits until the process ends
  }
}

void ThreadPool::work() {
  isInLoop = true;
  std::unique_lock lock(mutex);
  for (;;) {
    hasLoop.wait(lock, [this] { return !loops.empty(); });
    Loop &loop = *loops.back();
    ++loop.helpers;
    lock.unlock();
    loop.run();
    lock.lock();
    llvm::erase(loops, &loop);
    if (--loop.helpers == 0)
      helperLeft.notify_all();
  }
}

void ThreadPool::run(Loop &loop) {
  {
    std::lock_guard lock(mutex);
    loops.push_back(&loop);
  }
  for (size_t i = 0; i < std::min(started, loop.count - 1); ++i)
    hasLoop.notify_one();
  isInLoop = true;
  loop.run();
  isInLoop = false;
  std::unique_lock lock(mutex);
  llvm::erase(loops, &loop);
  helperLeft.wait(lock, [&] { return loop.helpers == 0; });
}

static ThreadPool &pool() {
  // Never destroyed: its threads use it until the process ends.
  static ThreadPool &pool = *new ThreadPool;
  return pool;
}

size_t parallelThreads() { return pool().threads(); }

void parallelFor(size_t count, function_ref<void(size_t)> body) {
  if (count <= 1 || isInLoop) {
    for (size_t i = 0; i < count; ++i)
      body(i);
    return;
  }
  Loop loop{count, body};
  pool().run(loop);
}

} // namespace kiln
