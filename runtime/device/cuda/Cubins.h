//===- Cubins.h - a plan's kernels as a GPU's instructions ------------------===//
#pragma once

#include "runtime/device/Device.h"

namespace kiln {

struct ReadCubinsOptions {
  std::string target;         ///< of the GPU: sm_90a
  std::string cacheDirectory; ///< of kernels that are compiled now; empty: none
  /// Told what takes long and need not: kernels that are compiled now.
  std::function<void(StringRef)> note;
};

/// One for each kernel of the plan: its own where they run on the target, compiled now where they do not, or where the
/// source was edited. Error: a file cannot be read, no NVRTC, or a kernel does not compile for the target.
Expected<std::vector<std::string>> readCubins(const Plan &plan, const KernelFiles &files,
                                              const ReadCubinsOptions &options);

} // namespace kiln
