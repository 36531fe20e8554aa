//===- cluster_copy.cuh - copies of boxes to several blocks of a cluster -------------===//
//
// One read of a box in global memory for several blocks (TMA of sm_90 with multicast). Each of them gets the box at the
// same place of its shared memory, and its bytes at the same barrier; tensor_copy.cuh says the rest. A block expects
// the bytes of all boxes that it gets, whoever starts the copies, and before it reuses the place, the blocks that copy
// there wait for its readers, too. Threads wait for the bytes by waitClusterBarrier().
//
// These need sm_90; on GPUs before it they trap.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "device/cluster.cuh"
#include "device/tensor_copy.cuh"

namespace kiln {

#if defined(__CUDACC__)
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900

/// Starts to copy a box to the blocks whose ranks are bits of `blocks`. One thread calls it.
template <int kRank>
KILN_DEVICE void copyBoxToBlocks(SharedAddress to, const TensorMap &from, const int (&at)[kRank],
                                 SharedBarrier &barrier, u32 blocks, Site = Site::current()) {
  static_assert(kRank == 2 || kRank == 5, "tensors of rank 2 or 5");
  if constexpr (kRank == 2)
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
                 "[%0], [%1, {%2, %3}], [%4], %5;" ::"r"(to.raw()),
                 "l"(&from), "r"(at[0]), "r"(at[1]), "r"(SharedAddress(&barrier).raw()), "h"(u16(blocks))
                 : "memory");
  else
    asm volatile("cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
                 "[%0], [%1, {%2, %3, %4, %5, %6}], [%7], %8;" ::"r"(to.raw()),
                 "l"(&from), "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(at[3]), "r"(at[4]),
                 "r"(SharedAddress(&barrier).raw()), "h"(u16(blocks))
                 : "memory");
}

#else

template <int kRank>
KILN_DEVICE void copyBoxToBlocks(SharedAddress, const TensorMap &, const int (&)[kRank], SharedBarrier &, u32,
                                 Site = Site::current()) {
  asm volatile("trap;");
}

#endif

#else

template <int kRank>
KILN_EMULATED_NOTES_ACCESSES KILN_DEVICE void copyBoxToBlocks(SharedAddress to, const TensorMap &from,
                                                              const int (&at)[kRank], SharedBarrier &barrier,
                                                              u32 blocks, Site site = Site::current()) {
  static_assert(kRank == 2 || kRank == 5, "tensors of rank 2 or 5");
  emulatedThread->copyBoxToBlocks(to.pointer(), from, at, kRank, &barrier.state, blocks, site, KILN_EMULATED_CALLER);
}

#endif

} // namespace kiln
