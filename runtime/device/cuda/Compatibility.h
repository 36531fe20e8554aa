//===- Compatibility.h - what a machine and a plan must have ----------------===//
//
// Without any call of CUDA, so that it is tested on machines without a GPU.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "support/ADT.h"

namespace kiln {

/// What the CUDA runtime says of a machine. Versions as CUDA counts them: 13000 is 13.0.
struct CudaMachine {
  int driverVersion = 0;  ///< the newest CUDA that the driver supports; 0: no driver
  int runtimeVersion = 0; ///< that this program was built with
  int gpuCount = 0;
};

/// Error: no driver, one that is too old, no GPU, or none of that number.
Error checkMachine(const CudaMachine &machine, int ordinal);

/// Which of a plan's cubins a GPU of `target` runs: its own, else those of the newest older GPU of its generation.
std::optional<std::string> cubinTargetFor(StringRef target, ArrayRef<std::string> cubins);

} // namespace kiln
