// Every kernel of the simt family compiles for GPUs, and keeps its values in registers. NVRTC needs no GPU.

#include "kernels/simt/Cases.h"

#include <gtest/gtest.h>
#include <nvrtc.h>

namespace kiln {
namespace {

struct Compiled {
  nvrtcResult result;
  std::string log;
};

Compiled compile(const Variant &kernel, const std::string &target) {
  nvrtcProgram program;
  const std::string file = kernel.name() + ".cu";
  if (nvrtcResult result = nvrtcCreateProgram(&program, kernel.text().c_str(), file.c_str(), 0, nullptr, nullptr))
    return {result, nvrtcGetErrorString(result)};
  const std::string architecture = "-arch=" + target, include = "-I" KILN_TEMPLATES;
  const char *options[] = {architecture.c_str(), include.c_str(), "-std=c++20", "--ptxas-options=-v"};
  Compiled compiled{nvrtcCompileProgram(program, 4, options), ""};
  size_t size = 0;
  nvrtcGetProgramLogSize(program, &size);
  compiled.log.resize(size);
  nvrtcGetProgramLog(program, compiled.log.data());
  nvrtcDestroyProgram(&program);
  return compiled;
}

using GpuCompile = testing::TestWithParam<std::string>;

TEST_P(GpuCompile, EveryKernelWithoutSpills) {
  for (const Variant &kernel : allSimtKernels()) {
    const Compiled compiled = compile(kernel, GetParam());
    EXPECT_EQ(compiled.result, NVRTC_SUCCESS) << kernel.label() << "\n" << compiled.log;
    EXPECT_TRUE(StringRef(compiled.log).contains(" 0 bytes spill stores")) << kernel.label() << "\n" << compiled.log;
    EXPECT_TRUE(StringRef(compiled.log).contains(" 0 bytes stack frame")) << kernel.label() << "\n" << compiled.log;
  }
}
INSTANTIATE_TEST_SUITE_P(Targets, GpuCompile, testing::Values("sm_80", "sm_86", "sm_90a"),
                         [](const auto &info) { return info.param; });

} // namespace
} // namespace kiln
