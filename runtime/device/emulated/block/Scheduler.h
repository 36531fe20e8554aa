//===- Scheduler.h - runs the threads of blocks on one core -------------------------===//
//
// A ready thread that has not started runs on the stack of the thread that has just finished, so a kernel without
// barriers costs little more than a function call. A thread gets its own stack when it first has to wait. A failure
// unwinds every thread that has started, by an exception from the primitive in which the thread waits.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/device/emulated/block/BlockCluster.h"
#include "support/Diagnostic.h"

namespace kiln {

/// The ready threads, in the order of a schedule. No thread is in the queue twice.
class ReadyQueue {
public:
  void reset(size_t capacity, const LaunchOptions &options, uint64_t stream);

  bool empty() const { return count == 0; }
  void push(Thread *thread);
  /// Adds threads that become ready at the same moment. `group` is in ascending order.
  void push(ArrayRef<Thread *> group);
  /// The next thread; it stays in the queue until popped, and stays the next one.
  Thread *next();
  void pop();

  /// One of `count` things that may happen next: the first, the last or any, by the schedule.
  size_t choose(size_t count);
  /// Whether something that can wait happens now: at times under a random schedule, else never.
  bool happensEarly() { return schedule == Schedule::Random && random() % 16 == 0; }

private:
  uint64_t random();

  std::vector<Thread *> ring;
  size_t first = 0;
  size_t count = 0;
  bool isChosen = false; ///< whether the random choice of the next thread has been made
  Schedule schedule = Schedule::InOrder;
  uint64_t state = 0;
};

class Scheduler {
public:
  Scheduler() = default;
  Scheduler(const Scheduler &) = delete;
  ~Scheduler();

  /// Runs these clusters (linear indices in the grid of clusters) interleaved until all their threads have finished.
  /// Returns the failure, if any. Each call may come from another thread of the operating system.
  std::vector<Diagnostic> run(const EmulatedLaunch &launch, ArrayRef<uint64_t> numbers);

  // For blocks.

  const EmulatedLaunch &currentLaunch() const { return *launch; }
  bool hasFailed() const { return !failure.empty(); }
  void setFailure(std::vector<Diagnostic> diagnostics);
  /// Adds to the failure's message.
  void addNote(Diagnostic note) { failure.push_back(std::move(note)); }
  /// Ends the running thread at once.
  [[noreturn]] void unwind();
  /// Runs other threads until `thread`, the running one, is ready and its turn comes.
  void wait(Thread &thread);
  /// Makes waiting threads ready.
  void release(ArrayRef<Thread *> group);
  /// Moves the running thread behind all ready threads. False if only this has happened for a long time.
  bool yield(Thread &thread);
  /// The same for a thread that waits for another rank, which is not part of this launch.
  void yieldToRanks(Thread &thread);
  void noteProgress() { fruitlessTurns = 0; }
  /// A copy has been started.
  void noteCopy() { ++copiesUnderWay; }
  /// A thread of this core has written global memory.
  void noteWrite(const void *address, size_t bytes) { written.note(address, bytes); }
  WrittenBytes takeWritten() { return std::exchange(written, {}); }

  /// Whether an address is on the stack of a thread of this core.
  bool isOnStack(const void *address) const { return stacks.contains(address); }

private:
  /// Moves the running thread behind all ready threads, and runs those.
  void requeue(Thread &thread);
  void runThreads(Runner &runner);
  void start(Runner &runner, Thread &thread);
  Thread *takeUnstarted();
  Runner *takeRunner();
  void switchTo(Thread &thread);
  void unwindAll();
  /// Lets the bytes of a copy arrive; false if none is under way.
  bool deliverCopy();

  const EmulatedLaunch *launch = nullptr;
  WrittenBytes written;
  EmulatedThread **current = nullptr; ///< `emulatedThread` of the kernel's library on this core
  MutableArrayRef<std::unique_ptr<BlockCluster>> running() {
    return MutableArrayRef(clusters).take_front(runningCount);
  }

  std::vector<std::unique_ptr<BlockCluster>> clusters; ///< of these the first `runningCount` are in use
  size_t runningCount = 0;
  size_t unfinished = 0;
  size_t fruitlessTurns = 0;
  size_t rankTurns = 0;      ///< of threads that wait for other ranks
  size_t copiesUnderWay = 0; ///< of all clusters
  ReadyQueue ready;
  std::vector<Diagnostic> failure;

  FiberStacks stacks;
  std::vector<std::unique_ptr<Runner>> runners;
  std::vector<Runner *> idle;
  bool isQuitting = false;
};

} // namespace kiln
