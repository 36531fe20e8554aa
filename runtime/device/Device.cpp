#include "runtime/device/Device.h"

#include "support/Diagnostic.h"

namespace kiln {

/// What an argument is, for messages: `the dim B`.
static std::string describeArgument(StringRef argument, bool isAddress, bool isMap) {
  return (isMap ? "a map of " : isAddress ? "the address " : "the dim ") + argument.str();
}

Error checkArguments(const PlanLaunch &launch, ArrayRef<PlanTensorMap> maps, ArrayRef<int64_t> parameterBytes) {
  if (launch.arguments.size() != parameterBytes.size())
    return makeError("kernel " + launch.kernel + ": expected " + Twine(parameterBytes.size()) +
                     " arguments in the plan, got " + Twine(launch.arguments.size()));
  for (const auto &[i, argument] : llvm::enumerate(launch.arguments)) {
    bool isAddress = StringRef(argument).starts_with("%") || StringRef(argument).starts_with("@");
    bool isMap =
        llvm::any_of(maps, [i = i](const PlanTensorMap &map) { return map.argument == static_cast<int64_t>(i); });
    int64_t bytes = isMap ? tensorMapBytes : isAddress ? 8 : 4;
    if (bytes != parameterBytes[i])
      return makeError("kernel " + launch.kernel + ": argument " + Twine(i + 1) + ": expected " +
                       Twine(parameterBytes[i]) + " bytes, got " + describeArgument(argument, isAddress, isMap) +
                       " of " + Twine(bytes) + " bytes");
  }
  return Error::success();
}

Error wrongConstant(StringRef kernel, StringRef name, int64_t bytes) {
  return makeError("kernel " + kernel + ": expected an array '" + name + "' of " + Twine(bytes) +
                   " bytes in constant memory, found none");
}

} // namespace kiln
