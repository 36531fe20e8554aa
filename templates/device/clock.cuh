//===- clock.cuh - the time, for measurements inside a kernel ------------------------===//
//
// Nothing that a kernel computes may depend on it.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "device/base.cuh"
#if !defined(__CUDACC__)
#include "device/emulated.cuh"
#endif

namespace kiln {

#if defined(__CUDACC__)

/// The low word of a count of the multiprocessor's cycles. The difference of two is right for two seconds or so.
KILN_DEVICE u32 clockCycles() {
  u32 cycles;
  asm volatile("mov.u32 %0, %%clock;" : "=r"(cycles)::"memory");
  return cycles;
}

#else

/// Nanoseconds instead of cycles.
KILN_DEVICE u32 clockCycles() { return emulatedThread->clock(); }

#endif

} // namespace kiln
