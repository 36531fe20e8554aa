//===- GpuCompile.h - compiles kernels of these tests for GPUs ------------------===//
#pragma once

#include "kernels/Variant.h"
#include "nvrtc/Nvrtc.h"

namespace kiln {

/// Compiles a kernel with NVRTC, which needs no GPU. Error: NVRTC's message.
Expected<CompiledKernel> compileForGpu(const Variant &kernel, StringRef target);

/// The most bytes that a kernel may spill: ptxas spills a register or two, outside loops, to reach the next step of
/// occupancy.
constexpr int kMostSpilledBytes = 16;

} // namespace kiln
