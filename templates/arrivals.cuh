//===- arrivals.cuh - the last of several blocks ------------------------------===//
//
// Blocks that share a result write their parts of it to memory, count themselves, and the last one to arrive, which
// sees all parts, finishes the result: the deterministic alternative to adding into it atomically.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "device/atomic.cuh"
#include "device/base.cuh"
#include "device/block.cuh"
#include "device/index.cuh"

namespace kiln {

/// Whether this block is the last of `active` to arrive at a counter, which is zero before and after; all that the
/// others wrote before can be seen then. By all threads of the block; `isLast` is in shared memory.
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
