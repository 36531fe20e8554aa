//===- bulk_copy.cuh - copies of many bytes into shared memory -------------------------===//
//
// One thread starts the copy of contiguous bytes of global memory, this GPU's or another one's that it reaches (TMA of
// sm_90 without a tensor map: cp.async.bulk); they arrive at a barrier (barrier.cuh). So a few blocks have many bytes
// under way, without registers: what is read across a link needs that.
//
// These need sm_90; on GPUs before it they trap.
//
// In the emulator, the target is poisoned when a copy starts, and its bytes arrive when no thread can go on without
// them, as in tensor_copy.cuh.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "device/barrier.cuh"
#include "device/base.cuh"
#include "device/shared.cuh"

namespace kiln {

#if defined(__CUDACC__)
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900

/// Starts to copy so many bytes, a multiple of 16; both places are at multiples of 16. The thread has arrived at the
/// barrier before and said how many bytes to expect.
KILN_DEVICE void copyBytes(SharedAddress to, const void *from, u32 bytes, SharedBarrier &barrier,
                           Site = Site::current()) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to.raw()),
      "l"(from), "r"(bytes), "r"(SharedAddress(&barrier).raw())
      : "memory");
}

/// What this thread knows to be in global memory, as the writes of others that it has waited for, is what copies that
/// it starts from now on read.
KILN_DEVICE void fenceGlobalCopies() { asm volatile("fence.proxy.async.global;" ::: "memory"); }

#else

KILN_DEVICE void copyBytes(SharedAddress, const void *, u32, SharedBarrier &, Site = Site::current()) {
  asm volatile("trap;");
}
KILN_DEVICE void fenceGlobalCopies() { asm volatile("trap;"); }

#endif

#else

KILN_EMULATED_NOTES_ACCESSES KILN_DEVICE void copyBytes(SharedAddress to, const void *from, u32 bytes,
                                                        SharedBarrier &barrier, Site site = Site::current()) {
  emulatedThread->copyBytes(to.pointer(), from, bytes, &barrier.state, site, KILN_EMULATED_CALLER);
}
KILN_DEVICE void fenceGlobalCopies() {}

#endif

} // namespace kiln
