//===- Launcher.h - runs kernels without a GPU ----------------------------------------===//
//
// Blocks are spread over the cores; the threads of a block run in turn on one of them, each until it waits.
// Detected, as an error that names the kernel, the block, the threads and the line of the primitive:
//   - a thread that leaves while others wait for it, at a barrier or a collective
//   - threads that wait at different barriers, lanes that wait at different collectives
//   - waiting that can never end
//   - misaligned vector accesses
//   - writes outside shared memory (by the thread's next primitive) and outside global memory (after the
//   launch)
// and of a kernel compiled with checked accesses, at the line of the access:
//   - accesses outside shared memory, outside the tensors of the launch, and writes to those that are only read
//   - reads of what nothing has written, and, before waitForDependencies(), of what earlier launches of the call have
//   - accesses of two threads to the same word of shared memory with nothing between them that orders the two
// The effect of a race depends on the order in which threads run, so a race also shows as different results under
// different schedules.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/device/emulated/Launch.h"
#include "runtime/device/emulated/memory/Memory.h"

namespace kiln {

class Scheduler;

/// Launches kernels, one at a time.
class EmulatedLauncher {
public:
  /// `memory`, if not null, is checked after each launch; it must outlive the launcher.
  explicit EmulatedLauncher(EmulatedMemory *memory = nullptr);
  ~EmulatedLauncher();

  /// Runs the kernel on the whole grid. `args[i]` points to argument i, as for cudaLaunchKernel. Blocks are
  /// one-dimensional, of at most 1024 threads. `tensors` is the global memory that checked accesses may touch; empty:
  /// all of `memory`. Error: a launch that no GPU would accept, or a fault of the kernel; if several blocks fail, that
  /// of the first in the schedule's order.
  Error launch(const EmulatedKernel &kernel, Dim3 grid, Dim3 block, size_t dynamicSharedBytes, ArrayRef<void *> args,
               const LaunchOptions &options = {}, ArrayRef<TensorRange> tensors = {});

private:
  Error runBlocks(const EmulatedLaunch &launch);

  EmulatedMemory *memory;
  WrittenBytes written;                               ///< by the launches of this call
  std::vector<std::unique_ptr<Scheduler>> schedulers; ///< one per core, kept for their stacks
};

} // namespace kiln
