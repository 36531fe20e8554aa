//===- Occupancy.h - the number of blocks that a multiprocessor holds -----===//
#pragma once

#include "kernels/targets/Target.h"

namespace kiln {

/// The resources that a block needs of its multiprocessor.
struct BlockDemand {
  int64_t threads = 1;
  int64_t registers = 0;   ///< of a thread
  int64_t sharedBytes = 0; ///< static and dynamic
};

struct Occupancy {
  int64_t blocks = 0; ///< resident together on a multiprocessor; 0: a block does not fit
  double share = 0;   ///< of the threads that the multiprocessor can hold
  StringRef limit;    ///< the resource that allows no more blocks: threads, blocks, registers or shared memory
};

/// As NVIDIA's occupancy calculator (cuda_occupancy.h of the toolkit) counts for compute capability 8.0 and up:
/// registers are allocated per warp in units of 256, from the quarter of the multiprocessor that the warp runs on;
/// shared memory is allocated per block in units of 128 bytes, with 1 KB more than the block asks for.
Occupancy occupancyOf(const BlockDemand &demand, const Target &target);

} // namespace kiln
