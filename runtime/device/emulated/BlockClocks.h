//===- BlockClocks.h - what the warps of a block know of each other ------------------===//
//
// Vector clocks (Lamport 1978, Fidge 1988) of a block with barriers in shared memory. The clock of a warp says for each
// warp up to which time its accesses are ordered before what comes next, and for each barrier how many of its phases
// are known to be complete. Whoever arrives at a barrier gives its clock to the barrier's phase; whoever has waited for
// the phase takes it. The lanes of a warp count as one.
//
// A barrier of the block orders everything, so a block without others needs no clocks: it has a time at which its last
// barrier opened.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/device/emulated/AccessHistory.h"

namespace kiln {

/// A time for each of AccessStamp::maxWarps warps, then a number of phases for each barrier of the block.
using BlockClock = std::vector<uint32_t>;

class BlockClocks {
public:
  /// Starts a block. Returns whether the history of accesses must be cleared: times of earlier blocks mean nothing now.
  [[nodiscard]] bool reset(size_t newWarps);

  /// The index of a new barrier in shared memory.
  size_t addBarrier();

  /// All threads have waited for each other.
  void syncBlock();

  /// A thread of the warp arrives at a barrier: gives the warp's clock to the phase.
  void release(size_t warp, BlockClock &phase);
  /// A thread of the warp has waited for a phase.
  void acquire(size_t warp, const BlockClock &phase);

  /// The number of phases of a barrier that the warp knows to be complete.
  uint32_t phasesKnown(size_t warp, size_t barrier) const { return clocks[warp][AccessStamp::maxWarps + barrier]; }

  /// The moment of an access by a thread, whose warp has been synchronised so often.
  AccessTime now(uint32_t thread, uint32_t warpSyncs, const void *code) const {
    const uint32_t *seen = clocks.empty() ? nullptr : clocks[thread / 32].data();
    const uint32_t time = std::max(floor + 1, seen ? seen[thread / 32] : 0);
    return {AccessStamp::of(AccessStamp::Thread, thread, time, warpSyncs), thread, warpSyncs, floor, seen, code};
  }

private:
  static void join(BlockClock &clock, const BlockClock &other);

  uint32_t ticks = 1;
  uint32_t floor = 0; ///< the time at which the last barrier of the block opened
  size_t warps = 0;
  std::vector<BlockClock> clocks; ///< of every warp; none before the first barrier in shared memory
};

} // namespace kiln
