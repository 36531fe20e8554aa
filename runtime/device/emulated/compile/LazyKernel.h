//===- LazyKernel.h - kernels of a plan, compiled when they are needed --------===//
#pragma once

#include "plan/Plan.h"
#include "runtime/device/emulated/compile/HostKernelCompiler.h"

namespace kiln {

/// The code of one kernel of a plan. It is compiled when a launch needs it: a plan has kernels for every number of
/// rows, of which a program launches few.
struct LazyKernel {
  PlanKernel planned;
  std::string path, source;
  std::unique_ptr<KernelLibrary> library = nullptr; ///< null until it is compiled
  const EmulatedKernel *kernel = nullptr;           ///< of the library
};

/// Called after every kernel that had to be compiled, one call at a time: how many are done, of how many.
using CompileProgress = std::function<void(size_t done, size_t all, StringRef kernel)>;

/// Compiles those that are not compiled yet, on all cores, or takes them from the cache. Error: the first kernel, in
/// the given order, that does not compile.
Error compileMissing(const HostKernelCompiler &compiler, ArrayRef<LazyKernel *> codes, const CompileProgress &progress);

} // namespace kiln
