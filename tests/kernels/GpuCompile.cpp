#include "kernels/GpuCompile.h"

#include <nvrtc.h>

namespace kiln {

GpuCompiled compileForGpu(const Variant &kernel, const std::string &target) {
  nvrtcProgram program;
  const std::string file = kernel.name() + ".cu";
  if (nvrtcResult result = nvrtcCreateProgram(&program, kernel.text().c_str(), file.c_str(), 0, nullptr, nullptr))
    return {false, nvrtcGetErrorString(result)};
  const std::string architecture = "-arch=" + target, include = "-I" KILN_TEMPLATES;
  const char *options[] = {architecture.c_str(), include.c_str(), "-std=c++17", "--ptxas-options=-v"};
  GpuCompiled compiled{nvrtcCompileProgram(program, 4, options) == NVRTC_SUCCESS, ""};
  size_t size = 0;
  nvrtcGetProgramLogSize(program, &size);
  compiled.log.resize(size);
  nvrtcGetProgramLog(program, compiled.log.data());
  nvrtcDestroyProgram(&program);
  return compiled;
}

std::optional<int> spilledBytes(StringRef log) {
  auto [before, after] = log.split(" bytes spill stores");
  int bytes = 0;
  if (before.size() == log.size() || before.take_back(before.size() - before.rfind(' ') - 1).getAsInteger(10, bytes))
    return std::nullopt;
  return bytes;
}

} // namespace kiln
