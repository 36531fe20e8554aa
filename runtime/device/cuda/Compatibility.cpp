#include "runtime/device/cuda/Compatibility.h"

#include "support/Diagnostic.h"
#include "support/model/TargetName.h"

namespace kiln {

static std::string versionText(int number) {
  return std::to_string(number / 1000) + "." + std::to_string(number % 1000 / 10);
}

Error checkMachine(const CudaMachine &machine, int ordinal) {
  if (machine.driverVersion == 0)
    return makeError("no NVIDIA driver on this machine");
  if (machine.driverVersion / 1000 < machine.runtimeVersion / 1000)
    return makeError("the NVIDIA driver supports CUDA " + versionText(machine.driverVersion) + ", expected " +
                     versionText(machine.runtimeVersion) + " or newer; update the driver");
  if (machine.gpuCount == 0)
    return makeError("no GPU that the NVIDIA driver can use on this machine");
  if (ordinal < 0 || ordinal >= machine.gpuCount)
    return makeError("--device cuda:" + Twine(ordinal) + ": expected 0 to " + Twine(machine.gpuCount - 1) +
                     ", the number of a GPU of this machine");
  return Error::success();
}

std::optional<std::string> cubinTargetFor(StringRef target, ArrayRef<std::string> cubins) {
  std::optional<std::string> best;
  for (StringRef own : cubins) {
    if (own == target)
      return target.str();
    // Code for sm_80 runs on sm_86; code for an "a" target runs on that chip only.
    bool isOlder =
        own.back() != 'a' && own.size() == target.size() && own.drop_back() == target.drop_back() && own < target;
    if (isOlder && (!best || *best < own))
      best = own.str();
  }
  return best;
}

std::optional<std::string> ptxTargetFor(StringRef target, ArrayRef<std::string> ptx) {
  std::optional<std::string> best;
  for (const std::string &own : ptx)
    if (computeCapability(own) <= computeCapability(target) &&
        (!best || computeCapability(*best) < computeCapability(own)))
      best = own;
  return best;
}

} // namespace kiln
