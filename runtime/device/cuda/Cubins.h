//===- Cubins.h - the machine code of a plan's kernels --------------------===//
#pragma once

#include "runtime/device/Device.h"

namespace kiln {

struct ReadCubinsOptions {
  std::string target;         ///< the GPU's target: sm_90a
  std::string cacheDirectory; ///< for kernels that are compiled at run time; empty: none
  /// Called with a message when kernels must be compiled at run time, which takes long and can be avoided.
  std::function<void(StringRef)> note;
};

/// Returns one cubin for each kernel of the plan: the plan's own if it runs on the target; otherwise, or if the source
/// was edited, one that is compiled now. Error: a file cannot be read, no NVRTC, or a kernel does not compile for the
/// target.
Expected<std::vector<std::string>> readCubins(const Plan &plan, const KernelFiles &files,
                                              const ReadCubinsOptions &options);

} // namespace kiln
