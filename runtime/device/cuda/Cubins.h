//===- Cubins.h - the machine code of a plan's kernels --------------------===//
#pragma once

#include "runtime/device/Device.h"

namespace kiln {

/// A kernel's machine code, or its PTX, which the driver compiles when it loads it.
struct KernelCode {
  std::string bytes;
  std::string target; ///< what it was compiled for: sm_90a; for PTX compute_80
};

struct ReadCubinsOptions {
  std::string target;         ///< the GPU's target: sm_90a
  std::string gpu;            ///< its name, for messages: NVIDIA H200
  std::string cacheDirectory; ///< for kernels that are compiled at run time; empty: none
  /// Called with a message when kernels are compiled at run time, which takes long and can be avoided.
  std::function<void(StringRef)> note;
};

/// Returns the code of each kernel of the plan: the plan's own cubin if it runs on the target, else its PTX if the
/// driver can compile that for the target; otherwise, or if the source was edited, a cubin that is compiled now. Error:
/// a file cannot be read, no NVRTC, or a kernel does not compile for the target.
Expected<std::vector<KernelCode>> readCubins(const Plan &plan, const KernelFiles &files,
                                             const ReadCubinsOptions &options);

} // namespace kiln
