#include "runtime/execution/LoadedKernels.h"

#include "support/Diagnostic.h"

namespace kiln {

Expected<LoadedKernels> LoadedKernels::load(Device &device, const Plan &plan, const KernelFiles &files) {
  auto loaded = device.loadKernels(plan, files);
  if (!loaded)
    return loaded.takeError();
  LoadedKernels result;
  result.device = &device;
  for (auto [kernel, own] : llvm::zip(plan.kernels, *loaded))
    result.kernels[kernel.name] = std::move(own);
  if (Error error = result.checkLaunches(plan))
    return error;
  for (const PlanFunction &function : plan.functions)
    for (const PlanStep &step : function.steps)
      for (const PlanLaunch *launch : step.launches())
        if (Error error = result.instantiate(*launch))
          return error;
  return result;
}

/// Checks the arguments of all launches once, since launching does not check them again.
Error LoadedKernels::checkLaunches(const Plan &plan) const {
  std::map<StringRef, std::vector<int64_t>> parameters;
  for (const auto &[name, kernel] : kernels) {
    auto bytes = kernel->parameterBytes();
    if (!bytes)
      return bytes.takeError();
    if (*bytes)
      parameters[name] = std::move(**bytes);
  }
  for (const PlanFunction &function : plan.functions)
    for (const PlanStep &step : function.steps)
      for (const PlanLaunch *launch : step.launches())
        if (auto bytes = parameters.find(launch->kernel); bytes != parameters.end())
          if (Error error = checkArguments(*launch, *plan.findKernel(launch->kernel), bytes->second))
            return error;
  return Error::success();
}

Error LoadedKernels::instantiate(const PlanLaunch &launch) {
  if (launch.constants.empty())
    return Error::success();
  Instance &instance = instances[{launch.kernel, launch.constants}];
  if (instance.kernel)
    return Error::success();
  auto made = device->instantiate(*kernels.find(launch.kernel)->second);
  if (!made)
    return made.takeError();
  instance.kernel = std::move(*made);
  return Error::success();
}

const DeviceKernel *LoadedKernels::find(const PlanLaunch &launch) const {
  return launch.constants.empty() ? kernels.find(launch.kernel)->second.get()
                                  : instances.find({launch.kernel, launch.constants})->second.kernel.get();
}

Error LoadedKernels::fill(const Key &key, Instance &instance, const Weights &weights) {
  for (const PlanConstant &constant : key.second) {
    const DeviceMemory &weight = weights.find(constant.weight)->second;
    if (Error error = device->setConstant(*instance.kernel, constant.symbol, weight.address(), weight.bytes()))
      return error;
  }
  instance.isFilled = true;
  return Error::success();
}

Expected<bool> LoadedKernels::fillConstants(const PlanLaunch &launch, const Weights &weights) {
  auto found = launch.constants.empty() ? instances.end() : instances.find({launch.kernel, launch.constants});
  if (found == instances.end() || found->second.isFilled)
    return false;
  if (Error error = fill(found->first, found->second, weights))
    return error;
  return true;
}

Error LoadedKernels::fillConstants(const Weights &weights) {
  for (auto &[key, instance] : instances)
    if (!instance.isFilled)
      if (Error error = fill(key, instance, weights))
        return error;
  return Error::success();
}

} // namespace kiln
