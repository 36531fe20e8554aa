//===- grid.cuh - dependencies between consecutive kernels ---------------------===//
//
// Kernels of a plan follow each other in a stream, and each reads what an earlier one wrote. With programmatic
// dependent launch (PTX griddepcontrol, sm_90 and up), a kernel may start before the previous one has ended, do work
// that does not depend on it (load weights), and only then wait. On older GPUs and in the emulator, a kernel starts
// after the previous one has ended, so both primitives do nothing there. But in the emulator it is an error if a
// thread, before it has called waitForDependencies(), reads what an earlier kernel of the call has written, or writes
// anything, but for atomic accesses.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "device/base.cuh"

namespace kiln {

#if defined(__CUDACC__)

/// Returns when all earlier kernels have ended and their writes are visible. Every thread calls it before it reads or
/// writes memory that another kernel touches. Memory that no kernel of the same call of a function writes may be read
/// before: the first kernel of a call starts after all earlier work has ended. Loads (vec.cuh) and asynchronous copies
/// do not move across it.
KILN_DEVICE void waitForDependencies() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/// Lets the next kernel start once every block of this one has called this or ended. It may come first in a kernel,
/// since the next kernel waits for the data itself.
KILN_DEVICE void allowDependents() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

#else

KILN_DEVICE void waitForDependencies() { emulatedThread->hasWaitedForDependencies = true; }
KILN_DEVICE void allowDependents() {}

#endif

} // namespace kiln
