// Loops on several threads, on few, and on one.
#include "RefuseCalls.h"
#include "TestSupport.h"

#include "support/Diagnostic.h"
#include "support/process/Parallel.h"

#include <atomic>
#include <future>
#include <numeric>

namespace kiln {
namespace {

TEST(Parallel, EveryIndexIsCalledOnce) {
  for (size_t count : {0, 1, 2, 1000}) {
    std::vector<std::atomic<int>> calls(count);
    parallelFor(count, [&](size_t i) { ++calls[i]; });
    for (const std::atomic<int> &each : calls)
      EXPECT_EQ(each, 1);
  }
}

TEST(Parallel, LoopsMayBeInLoopsAndBesideOthers) {
  std::atomic<size_t> calls = 0;
  auto nested = [&] { parallelFor(20, [&](size_t) { parallelFor(30, [&](size_t) { ++calls; }); }); };
  std::vector<std::thread> others(3);
  for (std::thread &other : others)
    other = std::thread([&] {
      for (int i = 0; i < 50; ++i)
        nested();
    });
  nested();
  for (std::thread &other : others)
    other.join();
  EXPECT_EQ(calls, 151u * 20 * 30);
}

TEST(Parallel, ThreadsOfTheirOwnMayWaitForEachOther) {
  std::atomic<size_t> arrived = 0;
  std::vector<std::thread::id> threads(4);
  expectSuccess(runThreads(4, [&](size_t i) -> Error {
    threads[i] = std::this_thread::get_id();
    for (++arrived; arrived < 4;)
      std::this_thread::yield();
    return Error::success();
  }));
  EXPECT_EQ(threads[0], std::this_thread::get_id());
  EXPECT_EQ(std::set<std::thread::id>(threads.begin(), threads.end()).size(), 4u);
  expectSuccess(runThreads(0, [](size_t) -> Error { return makeError("nothing is to be done"); }));
}

TEST(Parallel, ErrorsOfThreadsAreTheErrorsOfTheCall) {
  auto failOdd = [](size_t i) -> Error { return i % 2 ? makeError("call " + Twine(i)) : Error::success(); };
  std::string messages = messageOf(runThreads(4, failOdd));
  EXPECT_TRUE(StringRef(messages).contains("call 1") && StringRef(messages).contains("call 3")) << messages;
  expectSuccess(runThreads(1, failOdd));
}

/// Whether loops and threads work as documented if the system gives no thread.
bool worksWithoutThreads() {
  bool isStarted = startThread([] {}).has_value();
  size_t sum = 0; // on this thread alone
  parallelFor(100, [&](size_t i) { sum += i; });
  size_t calls = 0;
  Error error = runThreads(3, [&](size_t i) {
    calls = calls * 10 + i;
    return Error::success();
  });
  if (error || calls != 12)
    return false;
  auto later = std::async(std::launch::async | std::launch::deferred, [] { return 7; });
  return !isStarted && sum == 4950 && later.get() == 7;
}

TEST(ParallelDeathTest, TheCallerDoesWhatNoThreadCanBeHadFor) {
  auto alone = [] {
    if (!refuseCalls({SYS_clone, SYS_clone3}, EAGAIN))
      _exit(cannotTest);
    _exit(worksWithoutThreads() ? passed : failed);
  };
  EXPECT_EXIT(alone(), hasPassed, "");
}

} // namespace
} // namespace kiln
