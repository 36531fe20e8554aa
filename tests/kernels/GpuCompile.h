//===- GpuCompile.h - compiles kernels of these tests for GPUs ------------------===//
#pragma once

#include "kernels/Variant.h"

namespace kiln {

struct GpuCompiled {
  bool succeeded;
  std::string log; ///< with what ptxas says of registers
};

/// Compiles a kernel with NVRTC, which needs no GPU.
GpuCompiled compileForGpu(const Variant &kernel, const std::string &target);

/// Bytes a kernel may spill: ptxas gives up a register or two, outside the loops, to reach the next step of occupancy.
constexpr int kMostSpilledBytes = 16;

/// Bytes that ptxas keeps in memory for want of registers; nothing if the log does not say.
std::optional<int> spilledBytes(StringRef log);

} // namespace kiln
