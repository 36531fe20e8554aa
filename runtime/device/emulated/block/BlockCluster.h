//===- BlockCluster.h - the blocks of an emulated launch that run at the same time ---------===//
//
// A cluster of blocks, most often of one: what its blocks share. Their threads run interleaved. The barriers in the
// shared memory of all of them, the copies whose bytes arrive there, and what their warps know of each other are kept
// here, since a thread may use those of another block.
//
// The cluster's own barrier is in two halves: a thread arrives, and waits later. It opens when every thread has arrived
// that has not left the kernel.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/device/emulated/block/ThreadBlock.h"

#include <deque>

namespace kiln {

/// Bytes that arrive at a barrier later.
struct AsyncCopy {
  size_t barrier; ///< index of the barrier in the cluster
  size_t bytes;
  std::function<void()> deliver; ///< writes them
};

class BlockCluster {
public:
  BlockCluster() = default;
  BlockCluster(const BlockCluster &) = delete;

  /// Makes this object the cluster `index` of the launch, with no thread started.
  void reset(Scheduler &scheduler, const EmulatedLaunch &launch, uint64_t index);

  /// The blocks, by their ranks.
  MutableArrayRef<std::unique_ptr<ThreadBlock>> allBlocks() { return MutableArrayRef(blocks).take_front(blockCount); }
  bool hasOneBlock() const { return blockCount == 1; }
  /// The block in whose shared memory an address lies; null if in none.
  ThreadBlock *blockAt(const void *address);

  /// Lets the bytes of a copy arrive.
  void deliverCopy(size_t which);
  /// Begins the next phase of a barrier if the current one is complete.
  void completePhase(PhaseBarrier &barrier);

  /// The halves of the cluster's barrier. Both return when the thread may go on.
  void arrive(Thread &thread);
  void wait(Thread &thread);
  /// Called when a thread's kernel has returned, or all threads of a block's.
  void leave(Thread &thread);
  void checkEnd(ThreadBlock &block);

  /// Notes that a thread accesses the shared memory of another block, by the name of what it does: `reads`. Records a
  /// failure if that block may not have started, or may have ended; false then. isAwaited: it brings bytes to a
  /// barrier, for which the block has to wait before it ends (ThreadBlock::checkPhasesAtEnd).
  bool noteVisit(Thread &thread, ThreadBlock &visited, StringRef verb, Site site, bool isAwaited = false);

  /// Records that no thread can go on.
  void reportDeadlock();

  ClusterClocks clocks;
  std::vector<PhaseBarrier> barriers; ///< in the shared memory of all blocks
  std::deque<AsyncCopy> copies;       ///< whose bytes have not arrived, in the order of their start

private:
  /// The last access by a warp of another block.
  struct Visit {
    uint32_t time = 0; ///< of the warp; 0: none
    const Thread *thread = nullptr;
    StringRef verb;
    Site site;
  };

  void openBarrier();
  void reportStuckPhases(ArrayRef<const Thread *> waiting);
  static void reportVisit(const Visit &visit, const ThreadBlock &visited, StringRef message);
  MutableArrayRef<Visit> visitsOf(const ThreadBlock &block);

  Scheduler *scheduler = nullptr;
  std::vector<std::unique_ptr<ThreadBlock>> blocks; ///< of these the first `blockCount`
  size_t blockCount = 0;
  size_t warpsOfBlock = 0;
  std::vector<Visit> visits; ///< for each block, by the warps of the cluster

  // The cluster's barrier.
  size_t missing = 0;  ///< threads that have neither arrived in this phase nor left
  size_t live = 0;     ///< threads that have not left
  uint32_t phases = 0; ///< complete ones
  ClusterClock before, complete;
  std::vector<Thread *> waiting;
};

} // namespace kiln
