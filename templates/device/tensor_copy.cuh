//===- tensor_copy.cuh - copies of boxes of a tensor into shared memory ---------------===//
//
// One thread starts the copy of a whole box of a tensor in global memory (TMA of sm_90: cp.async.bulk.tensor); its
// bytes arrive at a barrier (barrier.cuh). A tensor map describes the tensor: its address, its extents and strides, and
// the extents of a box. The runtime makes the map from what the plan says of the kernel's parameter.
//
// The first dimension of a box is 128 bytes long and contiguous in global memory. In shared memory a box is rows of 128
// bytes, one for each place in the other dimensions, whose chunks of 16 bytes are permuted (swizzledOffset of
// shared.cuh, with the row as key), as the products of warpgroup.cuh take them. So a box must start at a multiple of
// kWarpgroupTileAlignment. Elements of a box that lie outside the tensor are zero; at least one must lie inside. Bytes
// outside count like others at the barrier.
//
// These need sm_90; on GPUs before it they trap.
//
// In the emulator, the target is poisoned when a copy starts, and its bytes arrive when no thread can go on without
// them. With checked accesses, the copy is a write of the thread that starts it, which only a wait for the barrier's
// phase orders before other accesses.
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

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900

/// Asks for the map itself, so that the first copy need not wait for it.
KILN_DEVICE void prefetchMap(const TensorMap &map) { asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory"); }

/// Starts to copy the box whose first element has these coordinates, the contiguous dimension first. One thread calls
/// it, after it has arrived at the barrier and said how many bytes to expect.
template <int kRank>
KILN_DEVICE void copyBox(SharedAddress to, const TensorMap &from, const int (&at)[kRank], SharedBarrier &barrier,
                         Site = Site::current()) {
  static_assert(kRank == 2 || kRank == 3 || kRank == 5, "tensors of rank 2, 3 or 5");
  if constexpr (kRank == 2)
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], "
                 "[%4];" ::"r"(to.raw()),
                 "l"(&from), "r"(at[0]), "r"(at[1]), "r"(SharedAddress(&barrier).raw())
                 : "memory");
  else if constexpr (kRank == 3)
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, "
                 "%4}], [%5];" ::"r"(to.raw()),
                 "l"(&from), "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(SharedAddress(&barrier).raw())
                 : "memory");
  else
    asm volatile("cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4, "
                 "%5, %6}], [%7];" ::"r"(to.raw()),
                 "l"(&from), "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(at[3]), "r"(at[4]),
                 "r"(SharedAddress(&barrier).raw())
                 : "memory");
}

/// Like copyBox, for weights that nobody reads again soon: they leave the L2 cache before anything else does.
template <int kRank>
KILN_DEVICE void copyBoxOnce(SharedAddress to, const TensorMap &from, const int (&at)[kRank], SharedBarrier &barrier,
                             Site = Site::current()) {
  static_assert(kRank == 2 || kRank == 3, "tensors of rank 2 or 3");
  u64 policy;
  asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  if constexpr (kRank == 2)
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1, "
        "{%2, %3}], [%4], %5;" ::"r"(to.raw()),
        "l"(&from), "r"(at[0]), "r"(at[1]), "r"(SharedAddress(&barrier).raw()), "l"(policy)
        : "memory");
  else
    asm volatile(
        "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1, "
        "{%2, %3, %4}], [%5], %6;" ::"r"(to.raw()),
        "l"(&from), "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(SharedAddress(&barrier).raw()), "l"(policy)
        : "memory");
}

#else

KILN_DEVICE void prefetchMap(const TensorMap &) { asm volatile("trap;"); }
template <int kRank>
KILN_DEVICE void copyBox(SharedAddress, const TensorMap &, const int (&)[kRank], SharedBarrier &,
                         Site = Site::current()) {
  asm volatile("trap;");
}

template <int kRank>
KILN_DEVICE void copyBoxOnce(SharedAddress, const TensorMap &, const int (&)[kRank], SharedBarrier &,
                             Site = Site::current()) {
  asm volatile("trap;");
}

#endif

#else

/// What the emulator knows of a tensor and its boxes. The runtime fills in the members; the copy checks them.
struct alignas(64) TensorMap {
  static constexpr u32 kMostDimensions = 5;

  const void *data = nullptr; ///< the first element, at a multiple of 16 bytes
  /// Bytes between neighbours in dimensions 1 and up, multiples of 16; elements of dimension 0 are contiguous.
  u64 strides[kMostDimensions - 1] = {};
  u32 extents[kMostDimensions] = {}; ///< elements of the tensor in each dimension
  u32 box[kMostDimensions] = {};     ///< elements of a box in each dimension, 1 to 256
  u32 rank = 0;                      ///< 1 to kMostDimensions
  u32 elementBytes = 0;
};
static_assert(sizeof(TensorMap) == 128);

KILN_DEVICE void prefetchMap(const TensorMap &) {}

template <int kRank>
KILN_EMULATED_NOTES_ACCESSES KILN_DEVICE void copyBox(SharedAddress to, const TensorMap &from, const int (&at)[kRank],
                                                      SharedBarrier &barrier, Site site = Site::current()) {
  static_assert(kRank == 2 || kRank == 3 || kRank == 5, "tensors of rank 2, 3 or 5");
  emulatedThread->copyBox(to.pointer(), from, at, kRank, &barrier.state, site, KILN_EMULATED_CALLER);
}
template <int kRank>
KILN_EMULATED_NOTES_ACCESSES KILN_DEVICE void copyBoxOnce(SharedAddress to, const TensorMap &from,
                                                          const int (&at)[kRank], SharedBarrier &barrier,
                                                          Site site = Site::current()) {
  copyBox(to, from, at, barrier, site);
}

#endif

} // namespace kiln
