// Every kernel of the simt family compiles for GPUs, and keeps its values in registers. NVRTC needs no GPU.

#include "kernels/GpuCompile.h"
#include "kernels/simt/Cases.h"

#include <gtest/gtest.h>

namespace kiln {
namespace {

/// Loads along a depth that is not a multiple of 4 are scalar, and their addresses take many registers.
bool maySpill(const Variant &kernel) {
  StringRef constant = " kDepth = ";
  return StringRef(kernel.text()).contains(constant) && kernel["kDepth"] % 4 != 0;
}

using GpuCompile = testing::TestWithParam<std::string>;

TEST_P(GpuCompile, EveryKernelInRegisters) {
  for (const Variant &kernel : allSimtKernels()) {
    Expected<CompiledKernel> compiled = compileForGpu(kernel, GetParam());
    ASSERT_TRUE(static_cast<bool>(compiled)) << kernel.label() << "\n" << llvm::toString(compiled.takeError());
    ASSERT_GT(compiled->resources.registers, 0) << kernel.label();
    if (!maySpill(kernel)) {
      EXPECT_LE(compiled->resources.spillStores, kMostSpilledBytes) << kernel.label();
    }
  }
}
// This is plain CUDA: targets differ only in registers, and codegen.compiles compiles for the others.
INSTANTIATE_TEST_SUITE_P(Targets, GpuCompile, testing::Values("sm_90a"), [](const auto &info) { return info.param; });

} // namespace
} // namespace kiln
