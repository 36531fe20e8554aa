//===- ClusterClocks.h - what the warps of a cluster know of each other -----------------===//
//
// Vector clocks (Lamport 1978, Fidge 1988) of a cluster of blocks, most often of one block. The clock of a warp says
// for each warp up to which time its accesses are ordered before what comes next, and for each barrier in shared memory
// how many of its phases are known to be complete. Whoever arrives at a barrier gives its clock to the barrier's phase;
// whoever has waited for the phase takes it. The lanes of a warp count as one.
//
// The barrier of a block orders everything in a cluster of one, so such a block needs no clocks before it has barriers
// in shared memory: it has a time at which its last barrier opened.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/device/emulated/block/AccessHistory.h"

namespace kiln {

/// A time for each warp of the cluster, then a number of phases for each of its barriers in shared memory.
using ClusterClock = std::vector<uint32_t>;

/// The number of a thread in its cluster: its warp, counted through all blocks, times 32, plus its lane.
using ClusterThread = uint32_t;

class ClusterClocks {
public:
  /// Starts a cluster of so many blocks. Returns whether histories of accesses must be cleared: times of earlier
  /// clusters mean nothing now.
  [[nodiscard]] bool reset(size_t blocks, size_t warpsOfBlock);

  /// Gives clocks to the warps of a cluster of one, if they have none; returns whether it did.
  bool start();
  /// The index of a new barrier in shared memory.
  size_t addBarrier();

  /// All threads of the block with this rank have waited for each other.
  void syncBlock(size_t rank);
  /// Something may have ordered everything that was done so far before what the warp does next.
  void followEverything(size_t warp);

  /// A thread of the warp arrives at a barrier: gives the warp's clock to the phase.
  void release(size_t warp, ClusterClock &phase);
  /// A thread of the warp has waited for a phase.
  void acquire(size_t warp, const ClusterClock &phase);
  /// A phase of a barrier is complete: whoever takes this clock knows.
  void completePhase(ClusterClock &phase, size_t barrier, uint32_t phases);

  /// The number of phases of a barrier that the warp knows to be complete.
  uint32_t phasesKnown(size_t warp, size_t barrier) const { return clocks[warp][warps + barrier]; }
  /// Up to which time a warp knows of another one's accesses.
  uint32_t timeKnown(size_t warp, size_t other) const { return clocks[warp][other]; }
  /// Whether anything that a warp of a block did before is ordered before what this warp does next; a block's own warps
  /// know of it always. Only for clusters of several blocks.
  bool knowsOf(size_t warp, size_t rank) const;

  /// The moment of an access by a thread, whose warp has been synchronised so often.
  AccessTime now(ClusterThread thread, uint32_t warpSyncs, const void *code) {
    ++changes;
    const uint32_t *seen = clocks.empty() ? nullptr : clocks[thread / 32].data();
    const uint32_t time = std::max(floor + 1, seen ? seen[thread / 32] : 0);
    return {AccessStamp::of(AccessStamp::Thread, thread, time, warpSyncs),
            thread,
            warpSyncs,
            floor,
            seen,
            seen ? seen + warps : nullptr,
            code};
  }

private:
  static void join(ClusterClock &clock, const ClusterClock &other);
  bool hasOneBlock() const { return warps == warpsOfBlock; }
  void orderEverything();

  uint32_t ticks = 1;
  uint32_t floor = 0; ///< the time at which the last barrier of the only block opened, or the cluster started
  size_t warps = 0, warpsOfBlock = 0;
  /// Of every warp; none before the first barrier in shared memory of a cluster of one.
  std::vector<ClusterClock> clocks;
  std::vector<uint32_t> completed; ///< phases of each barrier
  /// Counts what a warp can follow: accesses, barriers and their phases.
  uint64_t changes = 0;
  std::vector<uint64_t> followed; ///< of each warp, the count when it last followed everything
};

} // namespace kiln
