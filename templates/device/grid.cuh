//===- grid.cuh - kernels in a row --------------------------------------------===//
//
// Kernels of a plan follow each other in a stream, and each reads what an earlier one wrote. With programmatic
// dependent launch (PTX griddepcontrol, sm_90 and up) a kernel may start before the one in front of it has ended,
// do what does not depend on it (load weights), and only then wait. On older GPUs, and in the emulator, which runs
// one kernel at a time, both primitives do nothing, because a kernel starts after the one in front of it has ended.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "device/base.cuh"

namespace kiln {

#if defined(__CUDACC__)

/// Returns when all kernels in front of this one have ended and what they wrote can be seen. Every thread that reads
/// or writes memory that another kernel touches calls it first. What no kernel of the same call of a function writes
/// may be read before: the first of a call starts when all before it has ended. Loads (vec.cuh) and asynchronous copies
/// stay on their side of it.
KILN_DEVICE void waitForDependencies() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/// Lets the next kernel start once every block of this one has called it or ended. It may come first in a kernel: the
/// next one waits for the data by itself.
KILN_DEVICE void allowDependents() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

#else

KILN_DEVICE void waitForDependencies() {}
KILN_DEVICE void allowDependents() {}

#endif

} // namespace kiln
