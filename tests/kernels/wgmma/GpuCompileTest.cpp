// Every kernel of the wgmma family compiles, keeps its values in registers, and on Hopper uses that family's
// instructions.

#include "kernels/GpuCompile.h"
#include "kernels/wgmma/Cases.h"

#include <gtest/gtest.h>

namespace kiln {
namespace {

using WgmmaGpuCompile = testing::TestWithParam<std::string>;

TEST_P(WgmmaGpuCompile, EveryKernelInRegisters) {
  for (const Variant &kernel : allWgmmaKernels()) {
    Expected<CompiledKernel> compiled = compileForGpu(kernel, GetParam());
    ASSERT_TRUE(static_cast<bool>(compiled)) << kernel.label() << "\n" << llvm::toString(compiled.takeError());
    ASSERT_GT(compiled->resources.registers, 0) << kernel.label();
    EXPECT_LE(compiled->resources.spillStores, kMostSpilledBytes) << kernel.label();
    EXPECT_EQ(StringRef(compiled->ptx).contains("wgmma.mma_async"), GetParam() == "sm_90a") << kernel.label();
    EXPECT_EQ(compiled->resources.stackBytes, 0) << kernel.label();
  }
}
INSTANTIATE_TEST_SUITE_P(Targets, WgmmaGpuCompile, testing::Values("sm_80", "sm_90a"),
                         [](const auto &info) { return info.param; });

} // namespace
} // namespace kiln
