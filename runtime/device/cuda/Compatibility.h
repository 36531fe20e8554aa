//===- Compatibility.h - requirements of a plan on a machine --------------===//
//
// Calls no function of CUDA, so that tests run on machines without a GPU.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "support/ADT.h"

namespace kiln {

/// What the CUDA runtime reports about a machine. Versions as CUDA writes them: 13000 is 13.0.
struct CudaMachine {
  int driverVersion = 0;  ///< the newest CUDA that the driver supports; 0: no driver
  int runtimeVersion = 0; ///< the version that this program was built with
  int gpuCount = 0;
};

/// Error: no driver, a driver that is too old, no GPU, or no GPU of that number.
Error checkMachine(const CudaMachine &machine, int ordinal);

/// Chooses the cubins that a GPU of `target` runs: its own, else those of the newest older GPU of its generation.
std::optional<std::string> cubinTargetFor(StringRef target, ArrayRef<std::string> cubins);

/// Chooses the PTX that the driver of a GPU of `target` compiles: that of the newest virtual architecture (compute_80)
/// that is not newer than the GPU.
std::optional<std::string> ptxTargetFor(StringRef target, ArrayRef<std::string> ptx);

} // namespace kiln
