//===- block.cuh - barrier and reductions of a block ---------------------------===//
//
// Every thread of the block must call these at the same place.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "device/base.cuh"
#include "device/index.cuh"
#include "device/math.cuh"
#include "device/warp.cuh"

namespace kiln {

#if defined(__CUDACC__)

/// Waits for every thread of the block, and makes what each wrote to memory visible to the others.
KILN_DEVICE void syncThreads(Site = Site::current()) { __syncthreads(); }

/// Like syncThreads; returns the number of threads for which `predicate` holds.
KILN_DEVICE u32 syncThreadsCount(bool predicate, Site = Site::current()) { return u32(__syncthreads_count(predicate)); }

#else

KILN_DEVICE void syncThreads(Site site = Site::current()) { emulatedThread->syncBlock(false, site); }

KILN_DEVICE u32 syncThreadsCount(bool predicate, Site site = Site::current()) {
  return emulatedThread->syncBlock(predicate, site);
}

#endif

/// Shared memory for one reduction or prefix sum of a block: one value per warp.
template <class T> struct BlockScratch {
  T warps[32];
};

/// Two stages: each warp reduces its values, then every warp reduces the results of all warps. The block must consist
/// of whole warps. `scratch` may be reused at once.
template <class Combine, class T>
KILN_DEVICE T blockReduce(T value, T identity, BlockScratch<T> &scratch, Site site) {
  const T warpResult = warpReduce<Combine, kWarpSize>(value, kAllLanes, site);
  if (laneIndex() == 0)
    scratch.warps[warpIndex()] = warpResult;
  syncThreads(site);
  const bool isWarp = laneIndex() < blockThreads() / kWarpSize;
  const T result = warpReduce<Combine, kWarpSize>(isWarp ? scratch.warps[laneIndex()] : identity, kAllLanes, site);
  syncThreads(site);
  return result;
}

/// The sum or the maximum of the values of all threads; every thread gets it.
template <class T> KILN_DEVICE T blockSum(T value, BlockScratch<T> &scratch, Site site = Site::current()) {
  return blockReduce<Sum>(value, T{}, scratch, site);
}
KILN_DEVICE float blockMax(float value, BlockScratch<float> &scratch, Site site = Site::current()) {
  return blockReduce<Max>(value, -infinity(), scratch, site);
}
KILN_DEVICE i32 blockMax(i32 value, BlockScratch<i32> &scratch, Site site = Site::current()) {
  return blockReduce<Max>(value, -2147483647 - 1, scratch, site);
}

/// The sum of the values of all threads before this one, and of all threads.
template <class T> struct PrefixSum {
  T before;
  T total;
};

/// Two stages, as in blockReduce; `scratch` may be reused at once.
template <class T>
KILN_DEVICE PrefixSum<T> blockPrefixSum(T value, BlockScratch<T> &scratch, Site site = Site::current()) {
  const T upToThis = warpInclusiveSum(value, site);
  if (laneIndex() == kWarpSize - 1)
    scratch.warps[warpIndex()] = upToThis;
  syncThreads(site);
  const bool isWarp = laneIndex() < blockThreads() / kWarpSize;
  const T warps = warpInclusiveSum(isWarp ? scratch.warps[laneIndex()] : T{}, site);
  const T upToWarp = shuffle(warps, warpIndex(), kAllLanes, site);
  const PrefixSum<T> result{upToWarp - scratch.warps[warpIndex()] + upToThis - value,
                            shuffle(warps, kWarpSize - 1, kAllLanes, site)};
  syncThreads(site);
  return result;
}

} // namespace kiln
