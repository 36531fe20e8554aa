//===- arrivals.cuh - finding the last of several blocks -----------------------===//
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

} // namespace kiln
