// The kernel with the shape that it has for GPT-2 compiles for GPUs and keeps its values in registers.

#include "kernels/GpuCompile.h"

#include <gtest/gtest.h>

namespace kiln {
namespace {

using GpuCompile = testing::TestWithParam<std::string>;

TEST_P(GpuCompile, SamplingInRegisters) {
  for (const char *pitch : {"50257", "50304"}) {
    const Variant kernel("sample", "sample", DType::F32, {{"kPitch", pitch}});
    Expected<CompiledKernel> compiled = compileForGpu(kernel, GetParam());
    ASSERT_TRUE(static_cast<bool>(compiled)) << kernel.label() << "\n" << llvm::toString(compiled.takeError());
    ASSERT_GT(compiled->resources.registers, 0) << kernel.label();
    EXPECT_EQ(compiled->resources.spillStores, 0) << kernel.label();
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, GpuCompile, testing::Values("sm_80", "sm_86", "sm_90a"),
                         [](const auto &info) { return info.param; });

} // namespace
} // namespace kiln
