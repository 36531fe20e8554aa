// Loops on several threads, on few, and on one.
#include "RefuseCalls.h"
#include "TestSupport.h"

#include "support/Parallel.h"

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

/// Whether loops and threads work as documented if the system gives no thread.
bool worksWithoutThreads() {
  bool isStarted = startThread([] {}).has_value();
  size_t sum = 0; // on this thread alone
  parallelFor(100, [&](size_t i) { sum += i; });
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
