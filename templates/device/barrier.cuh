//===- barrier.cuh - barriers in shared memory ---------------------------------------===//
//
// A barrier counts arrivals of threads, and bytes of asynchronous copies (mbarrier of PTX, sm_90 and up). Its phases
// follow each other: a phase is complete when as many threads have arrived as initBarrier() says and all bytes that
// they expect are there; then the next one begins. A thread that waits names the parity of the phase: 0 for the first
// phase, 1 for the second, 0 for the third. So a wait for parity 1 returns at once from a barrier whose first phase is
// not complete yet.
//
// Roles of a block hand memory to each other with two barriers for each stage: `full`, at which whoever fills the stage
// arrives, and `empty`, at which its readers arrive. What a thread did before it arrived is visible to the threads that
// have waited for the phase.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "device/base.cuh"
#include "device/shared.cuh"

namespace kiln {

/// A barrier; it lies in shared memory and is initialised by one thread.
struct SharedBarrier {
  u64 state;
};

#if defined(__CUDACC__)

/// Begins the first phase; each phase takes this many arrivals.
KILN_DEVICE void initBarrier(SharedBarrier &barrier, u32 arrivals, Site = Site::current()) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(SharedAddress(&barrier).raw()), "r"(arrivals)
               : "memory");
}

/// Makes the barriers that this thread has initialised visible to asynchronous copies and to other blocks of the
/// cluster, behind the next barrier of the block or cluster.
KILN_DEVICE void fenceBarriers() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }

KILN_DEVICE void arrive(SharedBarrier &barrier, Site = Site::current()) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(SharedAddress(&barrier).raw()) : "memory");
}

/// Arrives, and makes the phase wait for `bytes` more bytes of copies.
KILN_DEVICE void arriveExpecting(SharedBarrier &barrier, u32 bytes, Site = Site::current()) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(SharedAddress(&barrier).raw()), "r"(bytes)
               : "memory");
}

/// Returns when the latest phase of this parity is complete.
KILN_DEVICE void waitBarrier(SharedBarrier &barrier, u32 parity, Site = Site::current()) {
  asm volatile("{.reg .pred done;\n"
               "retry: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
               "@!done bra retry;}" ::"r"(SharedAddress(&barrier).raw()),
               "r"(parity)
               : "memory");
}

#endif

} // namespace kiln
