// Every kernel of the mma family compiles for GPUs, and keeps its values in registers.

#include "kernels/GpuCompile.h"
#include "kernels/mma/Cases.h"

#include <gtest/gtest.h>

namespace kiln {
namespace {

using MmaGpuCompile = testing::TestWithParam<std::string>;

TEST_P(MmaGpuCompile, EveryKernelInRegisters) {
  for (const Variant &kernel : allMmaKernels()) {
    Expected<CompiledKernel> compiled = compileForGpu(kernel, GetParam());
    ASSERT_TRUE(static_cast<bool>(compiled)) << kernel.label() << "\n" << llvm::toString(compiled.takeError());
    ASSERT_GT(compiled->resources.registers, 0) << kernel.label();
    EXPECT_LE(compiled->resources.spillStores, kMostSpilledBytes) << kernel.label();
  }
}
// sm_86 has the instructions of sm_80.
INSTANTIATE_TEST_SUITE_P(Targets, MmaGpuCompile, testing::Values("sm_80", "sm_90a"),
                         [](const auto &info) { return info.param; });

} // namespace
} // namespace kiln
