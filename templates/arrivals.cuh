//===- arrivals.cuh - finding the last of several blocks or warps --------------===//
//
// Blocks that share a result write their parts of it to memory and count themselves. The last one to arrive sees all
// parts and finishes the result. Unlike atomic additions to the result, this is deterministic.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "device/atomic.cuh"
#include "device/base.cuh"
#include "device/block.cuh"
#include "device/index.cuh"
#include "device/warp.cuh"

namespace kiln {

/// Whether this block is the last of `active` to arrive at a counter, which is zero before and after. If so, all
/// earlier writes of the others are visible. All threads of the block call this; `isLast` is in shared memory.
KILN_DEVICE bool arrivesLast(u32 *arrivals, int active, bool &isLast) {
  syncThreads();
  if (threadIndex() == 0) {
    isLast = arrive(arrivals) == u32(active - 1);
    if (isLast)
      *arrivals = 0;
  }
  syncThreads();
  return isLast;
}

/// The same for a warp, one of `active` that share a result. All of its lanes call this.
KILN_DEVICE bool warpArrivesLast(u32 *arrivals, int active) {
  syncWarp();
  u32 earlier = 0;
  if (laneIndex() == 0)
    earlier = arrive(arrivals);
  const bool isLast = shuffle(earlier, 0) == u32(active - 1);
  if (isLast && laneIndex() == 0)
    *arrivals = 0;
  syncWarp();
  return isLast;
}

} // namespace kiln
