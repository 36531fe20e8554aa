//===- index.cuh - indices of threads, warps and blocks ------------------------===//
//
// Blocks are one-dimensional; grids have up to three dimensions.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "device/base.cuh"

namespace kiln {

constexpr u32 kWarpSize = 32;
constexpr u32 kWarpgroupSize = 128;

#if defined(__CUDACC__)

/// The index of this thread in its block.
KILN_DEVICE u32 threadIndex() { return threadIdx.x; }
/// The number of threads of a block.
KILN_DEVICE u32 blockThreads() { return blockDim.x; }

/// The coordinates of this block in the grid.
KILN_DEVICE u32 blockIndexX() { return blockIdx.x; }
KILN_DEVICE u32 blockIndexY() { return blockIdx.y; }
KILN_DEVICE u32 blockIndexZ() { return blockIdx.z; }

/// The extents of the grid.
KILN_DEVICE u32 gridBlocksX() { return gridDim.x; }
KILN_DEVICE u32 gridBlocksY() { return gridDim.y; }
KILN_DEVICE u32 gridBlocksZ() { return gridDim.z; }

#else

KILN_DEVICE u32 threadIndex() { return emulatedThread->thread; }
KILN_DEVICE u32 blockThreads() { return emulatedThread->blockThreads; }

KILN_DEVICE u32 blockIndexX() { return emulatedThread->block.x; }
KILN_DEVICE u32 blockIndexY() { return emulatedThread->block.y; }
KILN_DEVICE u32 blockIndexZ() { return emulatedThread->block.z; }

KILN_DEVICE u32 gridBlocksX() { return emulatedThread->grid.x; }
KILN_DEVICE u32 gridBlocksY() { return emulatedThread->grid.y; }
KILN_DEVICE u32 gridBlocksZ() { return emulatedThread->grid.z; }

#endif

/// `value`, but as one that the compiler does not know: what is computed from it is computed where it is needed, and
/// not kept in registers (or, worse, in local memory) from one turn of a loop to the next.
KILN_DEVICE u32 renewed(u32 value) {
#if defined(__CUDACC__)
  asm volatile("" : "+r"(value));
#endif
  return value;
}

/// The index of this thread in its warp, and of its warp in the block.
KILN_DEVICE u32 laneIndex() { return threadIndex() % kWarpSize; }
KILN_DEVICE u32 warpIndex() { return threadIndex() / kWarpSize; }

} // namespace kiln
