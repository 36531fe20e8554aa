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
// have waited for the phase. Lanes of a warp that have not been synchronised each arrive and wait for themselves. So do
// lanes that have written shared memory for other warps: one arrival behind syncWarp() would do, but racecheck of
// compute-sanitizer does not see that it is behind the writes of the others. It costs nothing that can be measured.
//
// These need sm_90; on GPUs before it they trap, except initBarrier().
//
// Other blocks of a cluster arrive at barriers, too: cluster.cuh.
//
// In the emulator, every wrong use is an error: a barrier that is not initialised, too many arrivals, a wait for a
// phase that the thread cannot tell from another one. It takes the lanes of a warp as one when it asks what a wait has
// ordered.
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

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900

/// Makes the barriers that this thread has initialised visible to asynchronous copies and to other blocks of the
/// cluster, behind the next barrier of the block or cluster.
KILN_DEVICE void fenceBarriers() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }

KILN_DEVICE void arrive(SharedBarrier &barrier, Site = Site::current()) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(SharedAddress(&barrier).raw()) : "memory");
}

/// Arrives when `loaded`, the results of loads from shared memory, are there. Without it an arrival may overtake loads
/// whose results nothing has needed yet, and a copy that waits for it write where they still read.
template <int kCount>
KILN_DEVICE void arriveBehindLoads(SharedBarrier &barrier, const u32 (&loaded)[kCount], Site = Site::current()) {
  u32 any = 0;
#pragma unroll
  for (int i = 0; i < kCount; ++i)
    any |= loaded[i];
  // One arrival, whatever was loaded: but the assembler does not see that it is always one.
  asm volatile("{.reg .u32 arrivals;\n"
               "min.u32 arrivals, %1, 1;\n"
               "max.u32 arrivals, arrivals, 1;\n"
               "mbarrier.arrive.shared::cta.b64 _, [%0], arrivals;}" ::"r"(SharedAddress(&barrier).raw()),
               "r"(any)
               : "memory");
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

/// Waits until kThreads threads of the block have come here, all of whole warps. It is barrier kNumber of the hardware,
/// from 1; the emulator uses `barrier` and `parity` instead, one that was initialised for as many arrivals, and 0.
template <u32 kNumber, u32 kThreads>
KILN_DEVICE void syncWarps(SharedBarrier &, u32 &, Site = Site::current()) {
  asm volatile("bar.sync %0, %1;" ::"n"(kNumber), "n"(kThreads) : "memory");
}

#else

KILN_DEVICE void fenceBarriers() { asm volatile("trap;"); }
template <u32 kNumber, u32 kThreads> KILN_DEVICE void syncWarps(SharedBarrier &, u32 &, Site = Site::current()) {
  asm volatile("trap;");
}
KILN_DEVICE void arrive(SharedBarrier &, Site = Site::current()) { asm volatile("trap;"); }
template <int kCount>
KILN_DEVICE void arriveBehindLoads(SharedBarrier &, const u32 (&)[kCount], Site = Site::current()) {
  asm volatile("trap;");
}
KILN_DEVICE void arriveExpecting(SharedBarrier &, u32, Site = Site::current()) { asm volatile("trap;"); }
KILN_DEVICE void waitBarrier(SharedBarrier &, u32, Site = Site::current()) { asm volatile("trap;"); }

#endif

#else

KILN_DEVICE void initBarrier(SharedBarrier &barrier, u32 arrivals, Site site = Site::current()) {
  emulatedThread->initBarrier(&barrier.state, arrivals, site);
}
KILN_DEVICE void fenceBarriers() { emulatedThread->fenceBarriers(); }
KILN_DEVICE void arrive(SharedBarrier &barrier, Site site = Site::current()) {
  emulatedThread->arriveAtBarrier(&barrier.state, 0, site);
}
template <int kCount>
KILN_DEVICE void arriveBehindLoads(SharedBarrier &barrier, const u32 (&)[kCount], Site site = Site::current()) {
  arrive(barrier, site);
}
KILN_DEVICE void arriveExpecting(SharedBarrier &barrier, u32 bytes, Site site = Site::current()) {
  emulatedThread->arriveAtBarrier(&barrier.state, bytes, site);
}
KILN_DEVICE void waitBarrier(SharedBarrier &barrier, u32 parity, Site site = Site::current()) {
  emulatedThread->waitForPhase(&barrier.state, parity, /*isOfCluster=*/false, site);
}

template <u32 kNumber, u32 kThreads>
KILN_DEVICE void syncWarps(SharedBarrier &barrier, u32 &parity, Site site = Site::current()) {
  arrive(barrier, site);
  waitBarrier(barrier, parity, site);
  parity ^= 1;
}

#endif

} // namespace kiln
