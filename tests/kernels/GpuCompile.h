//===- GpuCompile.h - compiles kernels of these tests for GPUs ------------------===//
#pragma once

#include "kernels/Variant.h"
#include "nvrtc/Nvrtc.h"

namespace kiln {

/// Compiles a kernel with NVRTC, which needs no GPU. Error: what NVRTC says.
Expected<CompiledKernel> compileForGpu(const Variant &kernel, StringRef target);

/// Bytes a kernel may spill: ptxas gives up a register or two, outside the loops, to reach the next step of occupancy.
constexpr int kMostSpilledBytes = 16;

} // namespace kiln
