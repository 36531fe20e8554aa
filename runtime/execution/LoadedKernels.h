//===- LoadedKernels.h - the kernels of a plan on a device --------------------===//
#pragma once

#include "runtime/device/Device.h"

namespace kiln {

/// Kernels by the launches that need them. A module has one constant memory, and a kernel runs in many layers: launches
/// with other constants have another instance of the module. So constants are copied once, when the weights are there,
/// and a call has the same launches, and may start them as early, as without them.
class LoadedKernels {
public:
  using Weights = std::map<std::string, DeviceMemory, std::less<>>;

  /// Loads what the plan launches. Error: what the device reports, and a kernel with other parameters than a launch has
  /// arguments.
  static Expected<LoadedKernels> load(Device &device, const Plan &plan, const KernelFiles &files);

  /// The kernel of one of the plan's launches.
  const DeviceKernel *find(const PlanLaunch &launch) const;

  /// Enqueues copies of the launch's weights, which must be there, to its constants, unless they were before. Whether
  /// there were any: what is launched then starts when all before it has ended. Error: the kernel has no such constant.
  Expected<bool> fillConstants(const PlanLaunch &launch, const Weights &weights);
  /// The same for all launches.
  Error fillConstants(const Weights &weights);

private:
  using Key = std::pair<std::string, std::vector<PlanConstant>>;
  struct Instance {
    std::unique_ptr<DeviceKernel> kernel;
    bool isFilled = false;
  };

  Error checkLaunches(const Plan &plan) const;
  Error instantiate(const PlanLaunch &launch);
  Error fill(const Key &key, Instance &instance, const Weights &weights);

  Device *device = nullptr;
  std::map<std::string, std::unique_ptr<DeviceKernel>, std::less<>> kernels;
  std::map<Key, Instance> instances; ///< of launches with constants
};

} // namespace kiln
