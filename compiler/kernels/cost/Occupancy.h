//===- Occupancy.h - how many blocks a multiprocessor holds -----------------===//
#pragma once

#include "kernels/targets/Target.h"

namespace kiln {

/// What a block asks of its multiprocessor.
struct BlockDemand {
  int64_t threads = 1;
  int64_t registers = 0;   ///< of a thread
  int64_t sharedBytes = 0; ///< static and dynamic
};

struct Occupancy {
  int64_t blocks = 0; ///< resident together on a multiprocessor; 0: a block does not fit
  double share = 0;   ///< of the threads that the multiprocessor can hold
  StringRef limit;    ///< what allows no more: threads, blocks, registers or shared memory
};

/// As NVIDIA's occupancy calculator (cuda_occupancy.h of the toolkit) counts for compute capability 8.0 and up:
/// registers are given to warps, 256 at a time, from a quarter of the multiprocessor's each; shared memory to blocks,
/// 128 bytes at a time and 1 KB beyond what they ask for.
Occupancy occupancyOf(const BlockDemand &demand, const Target &target);

} // namespace kiln
