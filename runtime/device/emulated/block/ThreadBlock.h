//===- ThreadBlock.h - one block of an emulated launch -----------------------------------===//
//
// A block's threads wait for each other at its barrier; the threads of a warp or of a warpgroup wait for each other at
// collectives. Each of these is a rendezvous: the last thread to arrive does the work and continues at once, and the
// others become ready. A rendezvous that can never be completed is reported as soon as that is certain.
//
// Threads also wait for phases of barriers in shared memory (ThreadBlockBarriers.cpp), which take arrivals of threads
// and bytes of copies. The bytes of a copy arrive as late as possible: when no thread can go on. Under a random
// schedule they may arrive earlier.
//
// The blocks of a cluster (BlockCluster.h) reach each other's shared memory and barriers (ThreadBlockVisits.cpp).
//
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/device/emulated/Launch.h"
#include "runtime/device/emulated/block/BoxCopy.h"
#include "runtime/device/emulated/block/Fiber.h"
#include "runtime/device/emulated/block/PhaseBarrier.h"
#include "runtime/device/emulated/block/SharedMemory.h"

#include <chrono>

namespace kiln {

class BlockCluster;
class ThreadBlock;
class Scheduler;
class Thread;

/// Runs one thread of a block after the other: a thread that never waits needs no stack of its own.
struct Runner {
  Runner(void *stack, std::function<void()> body) : fiber(stack, std::move(body)) {}

  Fiber fiber;
  Thread *thread = nullptr; ///< the thread that is on this stack now
};

/// A thread of a block: the object that its primitives call, and its current state.
class Thread final : public EmulatedThread {
public:
  enum class State { Ready, Running, AtBarrier, AtCollective, AtPhase, AtCluster, Finished };

  ThreadBlock *owner = nullptr;
  Runner *runner = nullptr; ///< null before it has started and after it has finished
  State state = State::Ready;
  Site site;          ///< of the last primitive that went through the scheduler
  size_t barrier = 0; ///< at a phase: the index of the barrier in the cluster
  /// Having arrived at the cluster's barrier, but not waited: how often it had opened.
  std::optional<u32> clusterPhase;
  std::chrono::steady_clock::time_point waitsSince; ///< for another rank

  u32 lane() const { return thread % 32; }
  bool isWaiting() const { return state != State::Ready && state != State::Running && state != State::Finished; }

  u32 syncBlock(bool predicate, const Site &site) override;
  void syncWarp(u32 members, void *lane, EmulatedCombine combine, const Site &site) override;
  void syncWarpgroup(void *lane, EmulatedCombine combine, const Site &site) override;
  void pause(const Site &site) override;
  bool mayWaitForBlocks() const override;
  void pauseForRank(u32 turn, const u32 *stop, const Site &site) override;
  void acquire() override;
  u32 clock() override;
  void *staticShared(const void *tag, u64 bytes, u64 alignment, const Site &site) override;
  void *dynamicShared(u64 bytes, const Site &site) override;
  void copyLater(void *to, const void *bytes) override;
  void commitCopies() override;
  void waitCopies(u32 pending) override;
  void initBarrier(u64 *barrier, u32 arrivals, const Site &site) override;
  void fenceBarriers() override;
  void arriveAtBarrier(u64 *barrier, u32 bytes, const Site &site) override;
  void waitForPhase(u64 *barrier, u32 parity, bool isOfCluster, const Site &site) override;
  void arriveCluster(const Site &site) override;
  void waitCluster(const Site &site) override;
  void *inBlock(const void *own, u32 rank, const Site &site) override;
  void readCluster(void *to, const void *from, u64 bytes, const Site &site, const void *code) override;
  void writeCluster(void *to, const void *from, u64 bytes, const Site &site, const void *code) override;
  void sendCluster(void *to, const void *from, u64 bytes, u64 *barrier, const Site &site, const void *code) override;
  void copyBox(void *to, const TensorMap &from, const int *at, u32 rank, u64 *barrier, const Site &site,
               const void *code) override;
  void copyBoxToBlocks(void *to, const TensorMap &from, const int *at, u32 rank, u64 *barrier, u32 blocks,
                       const Site &site, const void *code) override;
  void copyBytes(void *to, const void *from, u64 bytes, u64 *barrier, const Site &site, const void *code) override;
  void checkAccess(const void *address, u64 bytes, EmulatedAccess access, const void *code) override;
  void checkOperand(const void *address, u64 bytes, const void *code) override;
  [[noreturn]] void fail(const char *message, const Site &site) override;

  /// Drops copies that the thread of an earlier block did not wait for.
  void dropCopies();

private:
  struct Copy {
    void *to;
    std::array<char, 16> bytes;
  };
  std::vector<Copy> copies;       ///< not waited for, in the order of their issue
  std::vector<size_t> copyGroups; ///< ends of the groups in `copies`
};

class ThreadBlock {
public:
  ThreadBlock() = default;
  ThreadBlock(const ThreadBlock &) = delete;

  /// Makes this object the block `index` of the launch, with no thread started. In its cluster it has this rank.
  void reset(Scheduler &scheduler, const EmulatedLaunch &launch, BlockCluster &cluster, u32 rank, EmulatedIndex index);

  MutableArrayRef<Thread> allThreads() { return threads; }
  u32 rank() const { return clusterRank; }
  bool isFinished() const { return finished == threads.size(); }
  SharedMemory &sharedMemory() { return shared; }
  /// `block (1,0,0)`
  std::string name() const;
  /// The number of a thread's warp in the cluster.
  size_t warpNumber(const Thread &thread) const { return clusterRank * warps.size() + thread.thread / 32; }
  /// The moment of an access of the thread.
  AccessTime now(const Thread &thread, const void *code = nullptr);

  /// The primitives. Each either returns when the thread may go on or unwinds it.
  u32 syncBlock(Thread &thread, bool predicate, Site site);
  void syncWarp(Thread &thread, u32 members, void *lane, EmulatedCombine combine, Site site);
  void syncWarpgroup(Thread &thread, void *lane, EmulatedCombine combine, Site site);
  void pause(Thread &thread, Site site);
  bool mayWaitForBlocks() const;
  void pauseForRank(Thread &thread, u32 turn, const u32 *stop, Site site);
  void acquire(const Thread &thread);
  void *staticShared(Thread &thread, const void *tag, u64 bytes, u64 alignment, Site site);
  void *dynamicShared(Thread &thread, u64 bytes, Site site);
  void initBarrier(Thread &thread, u64 *place, u32 arrivals, Site site);
  void fenceBarriers(Thread &thread);
  void arriveAtBarrier(Thread &thread, u64 *place, u32 bytes, Site site);
  void waitForPhase(Thread &thread, u64 *place, u32 parity, bool isOfCluster, Site site);
  void arriveCluster(Thread &thread, Site site);
  void waitCluster(Thread &thread, Site site);
  void *inBlock(Thread &thread, const void *own, u32 rank, Site site);
  void readCluster(Thread &thread, void *to, const void *from, u64 bytes, Site site, const void *code);
  void writeCluster(Thread &thread, void *to, const void *from, u64 bytes, Site site, const void *code);
  void sendCluster(Thread &thread, void *to, const void *from, u64 bytes, u64 *place, Site site, const void *code);
  void copyBox(Thread &thread, const BoxCopy &copy, u32 rank, u64 *place, Site site, const void *code);
  void copyBoxToBlocks(Thread &thread, const BoxCopy &copy, u32 rank, u64 *place, u32 blocks, Site site,
                       const void *code);
  void copyBytes(Thread &thread, void *to, const void *from, u64 bytes, u64 *place, Site site, const void *code);
  void checkAccess(Thread &thread, const void *address, u64 bytes, EmulatedAccess access, const void *code);
  void checkOperand(Thread &thread, const void *address, u64 bytes, const void *code);

  /// Called when a thread's kernel has returned; records a failure if another thread waits for it.
  void finish(Thread &thread);

  /// Records that a thread's local variables did not fit its stack.
  void reportStackOverflow(Thread &thread);

  /// All threads have been synchronised with the others of their warps.
  void noteSync();
  /// Records a failure if the kernel ends too early for a copy or a barrier in the block's shared memory.
  void checkPhasesAtEnd();

  /// Records a failure of the launch: `message` at `site`, and for every place where threads of `also` wait a
  /// note.
  void report(const Twine &message, Site site, ArrayRef<const Thread *> also = {});

  /// Records a failure, and unwinds the running thread.
  [[noreturn]] void fail(const Twine &message, Site site, ArrayRef<const Thread *> also = {});

private:
  /// The lanes of a warp that have arrived at a collective while others are still missing.
  struct Collective {
    u32 members;
    u32 arrived;
    EmulatedCombine combine;
    Site site;
  };
  struct Warp {
    u32 finished = 0;
    u32 syncs = 0;        ///< how often its lanes have been synchronised
    void *lanes[32] = {}; ///< the object that each waiting lane has brought
    SmallVector<Collective, 2> collectives;
  };

  static constexpr size_t warpgroupThreads = 128;
  /// A warpgroup of which some threads may have arrived at a collective.
  struct Warpgroup {
    size_t arrived = 0;
    EmulatedCombine combine = nullptr;
    Site site;
    void *lanes[warpgroupThreads] = {};
  };

  /// Records where the thread is, and reports shared memory that it has damaged since the last call.
  void arriveAt(Thread &thread, Site site);
  void checkShared(Thread &thread, std::optional<Site> now);

  /// The checks of one access, to the shared memory of a block or elsewhere. Each returns or unwinds.
  void checkSharedAccess(Thread &thread, SharedMemory &memory, const void *address, u64 bytes, EmulatedAccess access,
                         const AccessTime &time);
  void noteSharedAccess(Thread &thread, SharedMemory &memory, const void *address, u64 bytes, EmulatedAccess access,
                        StringRef verb, const AccessTime &time);
  std::string describe(const AccessHistory::Race &race) const;
  void checkGlobalAccess(Thread &thread, const void *address, u64 bytes, EmulatedAccess access, const void *code);
  [[noreturn]] void failAt(Thread &thread, const void *code, const Twine &message);

  /// The barrier that lies there, in the shared memory of a block of the cluster, which the thread may use. Unwinds if
  /// there is none. bringsBytes: of a copy, for which that block waits.
  PhaseBarrier &barrierAt(Thread &thread, const u64 *place, Site site, bool bringsBytes = false);
  size_t indexOf(const PhaseBarrier &barrier) const;
  /// The checks of bytes to write later, which a thread sends, or else a copy brings: their place, and the barrier at
  /// which they arrive. Then poisons the place.
  void checkBytes(Thread &thread, PhaseBarrier &barrier, ThreadBlock &where, const char *to, size_t bytes, bool isSent,
                  Site site);
  void startCopy(Thread &thread, PhaseBarrier &barrier, char *to, size_t bytes, std::function<void()> deliver,
                 Site site);
  void checkBox(Thread &thread, const BoxCopy &copy, u32 rank, Site site);
  /// Starts a copy to a block, whose bytes arrive at a barrier of that block.
  void startBox(Thread &thread, const BoxCopy &copy, ThreadBlock &where, PhaseBarrier &barrier, Site site,
                const void *code);
  void checkSource(Thread &thread, const BoxCopy &copy, Site site, const void *code);
  void checkSource(Thread &thread, const void *from, size_t bytes, Site site, const void *code);
  /// Notes the write of bytes that arrive at a barrier.
  void noteCopy(Thread &thread, const PhaseBarrier &barrier, SharedMemory &memory, const char *to, size_t bytes,
                StringRef verb, const void *code);
  /// The block in whose shared memory these bytes lie, in one variable, and which the thread may visit. Unwinds if
  /// there is none.
  ThreadBlock &visit(Thread &thread, const void *address, u64 bytes, StringRef verb, Site site);
  /// Fails with a note about another place.
  [[noreturn]] void failWithNote(const Twine &message, Site site, const Twine &note, Site other);

  /// Waits for the lanes of the warp that have not left; the last of them runs `combine` on the threads.
  void gatherWarp(Thread &thread, EmulatedCombine combine, Site site);
  Collective &joinCollective(Thread &thread, u32 members, EmulatedCombine combine, Site site);
  void checkMembers(Thread &thread, u32 members, Site site);
  void complete(Thread &thread, Collective &collective);

  Warp &warpOf(const Thread &thread) { return warps[thread.thread / 32]; }
  MutableArrayRef<Thread> threadsOfWarp(const Thread &thread) {
    size_t first = thread.thread - thread.lane();
    return allThreads().slice(first, std::min<size_t>(32, threads.size() - first));
  }
  Warpgroup &warpgroupOf(const Thread &thread) { return warpgroups[thread.thread / warpgroupThreads]; }
  MutableArrayRef<Thread> threadsOfWarpgroup(const Thread &thread) {
    return allThreads().drop_front(thread.thread / warpgroupThreads * warpgroupThreads).take_front(warpgroupThreads);
  }
  /// Records that some threads of `among` wait at `site` for others of them that have left.
  void reportLeft(Site site, ArrayRef<Thread> among);

  Scheduler *scheduler = nullptr;
  BlockCluster *cluster = nullptr;
  u32 clusterRank = 0;
  std::vector<Thread> threads;
  std::vector<Warp> warps;
  std::vector<Warpgroup> warpgroups;
  SharedMemory shared;
  size_t atBarrier = 0;
  u32 holding = 0;    ///< of the threads at the barrier: how many brought true
  u32 heldAtLast = 0; ///< the same for the last barrier that opened
  size_t finished = 0;
  Site barrierSite;
};

} // namespace kiln
