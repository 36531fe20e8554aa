//===- row_threads.cuh - the threads that share a row --------------------------===//
//
// Row-wise templates give each row to one thread, to a warp or to the whole block, by Config. This header contains what
// depends on that choice: the thread's row, its part of the row, and reductions over the row. A block of kThreads
// threads holds kThreads / kRowThreads rows; the grid is ceildiv(rows, kThreads / kRowThreads).
//
//===----------------------------------------------------------------------===//
#pragma once

#include "device/base.cuh"
#include "device/block.cuh"
#include "device/index.cuh"
#include "device/shared.cuh"
#include "device/warp.cuh"

namespace kiln {

template <int kThreads, int kRowThreads> struct RowThreads {
  static constexpr int kRowsPerBlock = kThreads / kRowThreads;
  static constexpr bool kIsBlock = kRowThreads == kThreads && kThreads != int(kWarpSize);
  static_assert(kThreads % int(kWarpSize) == 0 && kThreads <= 1024, "a block is whole warps, 1024 threads at most");
  static_assert(kRowThreads == 1 || kRowThreads == int(kWarpSize) || kRowThreads == kThreads,
                "a row has one thread, a warp or the block");

  /// Static shared memory, which the reductions declare.
  static constexpr int kSharedBytes = kIsBlock ? int(sizeof(BlockScratch<float>)) : 0;

  /// The calling thread's row. The threads of a row are all past the last row, or none is.
  KILN_DEVICE static int row() { return int(blockIndexX()) * kRowsPerBlock + int(threadIndex()) / kRowThreads; }
  /// The row's index in the block, and the thread's index in the row.
  KILN_DEVICE static int rowInBlock() { return int(threadIndex()) / kRowThreads; }
  KILN_DEVICE static int index() { return int(threadIndex()) % kRowThreads; }

  /// The sum and the maximum over the row's threads; each thread gets the result.
  KILN_DEVICE static float sum(float value) {
    if constexpr (kRowThreads == 1)
      return value;
    else if constexpr (kIsBlock)
      return blockSum(value, sharedStorage<BlockScratch<float>>());
    else
      return warpSum(value);
  }
  KILN_DEVICE static float max(float value) {
    if constexpr (kRowThreads == 1)
      return value;
    else if constexpr (kIsBlock)
      return blockMax(value, sharedStorage<BlockScratch<float>>());
    else
      return warpMax(value);
  }
};

} // namespace kiln
