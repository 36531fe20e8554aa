//===- tensor_copy.cuh - copies of boxes of a tensor into shared memory ---------------===//
//
// One thread starts the copy of a whole box of a tensor in global memory (TMA of sm_90: cp.async.bulk.tensor); its
// bytes arrive at a barrier (barrier.cuh). A tensor map describes the tensor: its address, its extents and strides, and
// the extents of a box. The runtime makes the map from what the plan says of the kernel's parameter.
//
// The first dimension of a box is 128 bytes long and contiguous in global memory. In shared memory a box is rows of 128
// bytes, one for each place in the other dimensions, whose chunks of 16 bytes are permuted (swizzledOffset of
// shared.cuh, with the row as key), as the products of warpgroup.cuh take them. So a box must start at a multiple of
// kWarpgroupTileAlignment. Elements of a box that lie outside the tensor are zero; at least one must lie inside.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "device/barrier.cuh"
#include "device/base.cuh"
#include "device/shared.cuh"

namespace kiln {

#if defined(__CUDACC__)

/// A kernel takes it as `const __grid_constant__ TensorMap`. The content is the driver's (CUtensorMap).
struct alignas(64) TensorMap {
  u64 words[16];
};

/// Asks for the map itself, so that the first copy need not wait for it.
KILN_DEVICE void prefetchMap(const TensorMap &map) { asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory"); }

/// Starts to copy the box whose first element has these coordinates, the contiguous dimension first. One thread calls
/// it, after it has arrived at the barrier and said how many bytes to expect.
template <int kRank>
KILN_DEVICE void copyBox(SharedAddress to, const TensorMap &from, const int (&at)[kRank], SharedBarrier &barrier,
                         Site = Site::current()) {
  static_assert(kRank == 2 || kRank == 5, "tensors of rank 2 or 5");
  if constexpr (kRank == 2)
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], "
                 "[%4];" ::"r"(to.raw()),
                 "l"(&from), "r"(at[0]), "r"(at[1]), "r"(SharedAddress(&barrier).raw())
                 : "memory");
  else
    asm volatile("cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4, "
                 "%5, %6}], [%7];" ::"r"(to.raw()),
                 "l"(&from), "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(at[3]), "r"(at[4]),
                 "r"(SharedAddress(&barrier).raw())
                 : "memory");
}

#endif

} // namespace kiln
