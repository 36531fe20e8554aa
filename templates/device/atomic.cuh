//===- atomic.cuh - words that blocks share -------------------------------------===//
//
// These functions work on global memory, across all blocks of a grid. Exceptions: addToShared works on shared memory,
// atomicAdd on both.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "device/base.cuh"
#include "device/index.cuh"
#include "device/shared.cuh"

namespace kiln {

#if defined(__CUDACC__)

/// Adds `value` and returns the previous value. It orders no other accesses. The order of float additions, and so the
/// rounded sum, differs from run to run: reproducible results need another method.
KILN_DEVICE u32 atomicAdd(u32 *target, u32 value) { return ::atomicAdd(target, value); }
KILN_DEVICE u64 atomicAdd(u64 *target, u64 value) { return ::atomicAdd(target, value); }
KILN_DEVICE float atomicAdd(float *target, float value) { return ::atomicAdd(target, value); }

/// The same for one lane of a warp, and nobody waits for the previous value before it is used. Of atomicAdd, compilers
/// make one operation for all lanes that call it with one value, and distribute its result at once.
KILN_DEVICE u64 atomicAddAhead(u64 *target, u64 value) {
  u64 earlier;
  u32 lane;
  asm volatile("mov.u32 %0, %%laneid;" : "=r"(lane));
  const u32 nothing = lane ^ laneIndex(); // another value for each lane, as far as they know
  asm volatile("atom.relaxed.gpu.global.add.u64 %0, [%1], %2;" : "=l"(earlier) : "l"(target), "l"(value + nothing));
  return earlier;
}

/// Adds `value` to a word of shared memory, which is consistent again after the next barrier. It uses 32-bit additions
/// with a carry: GPUs have no 64-bit addition in shared memory, so atomicAdd would be a loop of compare-and-swap.
KILN_DEVICE void addToShared(u64 *target, u64 value) {
  const u32 address = SharedAddress(target).raw(), low = u32(value);
  u32 earlier;
  asm volatile("atom.shared.add.u32 %0, [%1], %2;" : "=r"(earlier) : "r"(address), "r"(low) : "memory");
  const u32 high = u32(value >> 32) + (earlier + low < earlier);
  if (high != 0)
    asm volatile("red.shared.add.u32 [%0], %1;" ::"r"(address + 4), "r"(high) : "memory");
}

/// Every thread that sees this thread's later writes also sees its earlier ones.
KILN_DEVICE void threadFence() { __threadfence(); }

/// Counts one arrival and returns the number of earlier ones. A thread that sees a later count also sees everything
/// that the threads of earlier arrivals wrote before arriving. To count a block, call syncThreads(), then let one
/// thread arrive.
KILN_DEVICE u32 arrive(u32 *counter) {
  u32 earlier;
  asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], 1;" : "=r"(earlier) : "l"(counter) : "memory");
  return earlier;
}

/// Reads a counter. Afterwards, everything that the arrived threads wrote before arriving is visible.
KILN_DEVICE u32 loadAcquire(const u32 *counter) {
  u32 value;
  asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(counter) : "memory");
  return value;
}

/// Writes a word of host memory. The host sees all of it or nothing, and soon. It orders no other accesses.
KILN_DEVICE void storeToHost(u64 *target, u64 value) {
  asm volatile("st.relaxed.sys.global.u64 [%0], %1;" ::"l"(target), "l"(value) : "memory");
}

/// Every loop that waits for another thread's write must call this.
KILN_DEVICE void pause(Site = Site::current()) { __nanosleep(20); }

#else

KILN_EMULATED_NOTES_ACCESSES KILN_DEVICE u32 atomicAdd(u32 *target, u32 value) {
  emulatedNote(target, EmulatedAccess::Atomic);
  return __atomic_fetch_add(target, value, __ATOMIC_RELAXED);
}

KILN_EMULATED_NOTES_ACCESSES KILN_DEVICE u64 atomicAdd(u64 *target, u64 value) {
  emulatedNote(target, EmulatedAccess::Atomic);
  return __atomic_fetch_add(target, value, __ATOMIC_RELAXED);
}

KILN_EMULATED_NOTES_ACCESSES KILN_DEVICE float atomicAdd(float *target, float value) {
  emulatedNote(target, EmulatedAccess::Atomic);
  float seen;
  __atomic_load(target, &seen, __ATOMIC_RELAXED);
  float sum = seen + value;
  while (!__atomic_compare_exchange(target, &seen, &sum, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
    sum = seen + value;
  return seen;
}

KILN_EMULATED_NOTES_ACCESSES KILN_DEVICE u64 atomicAddAhead(u64 *target, u64 value) {
  emulatedNote(target, EmulatedAccess::Atomic);
  return __atomic_fetch_add(target, value, __ATOMIC_RELAXED);
}

KILN_EMULATED_NOTES_ACCESSES KILN_DEVICE void addToShared(u64 *target, u64 value) {
  emulatedNote(target, EmulatedAccess::Atomic);
  __atomic_fetch_add(target, value, __ATOMIC_RELAXED);
}

KILN_DEVICE void threadFence() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }

KILN_EMULATED_NOTES_ACCESSES KILN_DEVICE u32 arrive(u32 *counter) {
  emulatedNote(counter, EmulatedAccess::Atomic);
  return __atomic_fetch_add(counter, 1, __ATOMIC_ACQ_REL);
}

KILN_DEVICE u32 loadAcquire(const u32 *counter) {
  const u32 value = __atomic_load_n(counter, __ATOMIC_ACQUIRE);
  emulatedThread->acquire();
  return value;
}

KILN_DEVICE void storeToHost(u64 *target, u64 value) { __atomic_store_n(target, value, __ATOMIC_RELAXED); }

KILN_DEVICE void pause(Site site = Site::current()) { emulatedThread->pause(site); }

#endif

} // namespace kiln
