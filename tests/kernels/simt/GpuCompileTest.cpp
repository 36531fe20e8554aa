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
  if (nvrtcResult result =
          nvrtcCreateProgram(&program, kernel.text().c_str(), file.c_str(), 0, nullptr, nullptr))
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

/// Bytes that ptxas keeps in memory for want of registers; nothing if the log does not say.
std::optional<int> spilledBytes(StringRef log) {
  auto [before, after] = log.split(" bytes spill stores");
  int bytes = 0;
  if (before.size() == log.size() ||
      before.take_back(before.size() - before.rfind(' ') - 1).getAsInteger(10, bytes))
    return std::nullopt;
  return bytes;
}

/// Loads along a depth without a factor of 4 are scalar, and their addresses take what registers there are.
bool maySpill(const Variant &kernel) {
  StringRef constant = " kDepth = ";
  return StringRef(kernel.text()).contains(constant) && kernel["kDepth"] % 4 != 0;
}

using GpuCompile = testing::TestWithParam<std::string>;

TEST_P(GpuCompile, EveryKernelInRegisters) {
  for (const Variant &kernel : allSimtKernels()) {
    const Compiled compiled = compile(kernel, GetParam());
    ASSERT_EQ(compiled.result, NVRTC_SUCCESS) << kernel.label() << "\n" << compiled.log;
    const std::optional<int> spilled = spilledBytes(compiled.log);
    ASSERT_TRUE(spilled) << compiled.log;
    // ptxas gives up a register or two, outside the loops, to reach the next step of occupancy.
    if (!maySpill(kernel)) {
      EXPECT_LE(*spilled, 16) << kernel.label() << "\n" << compiled.log;
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Targets, GpuCompile, testing::Values("sm_80", "sm_86", "sm_90a"),
                         [](const auto &info) { return info.param; });

} // namespace
} // namespace kiln
