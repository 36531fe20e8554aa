//===- LoadedKernels.h - the kernels of a plan on a device --------------------===//
#pragma once

#include "runtime/device/Device.h"

namespace kiln {

/// The loaded kernel of each launch. A module has one constant memory, but a kernel runs in many layers, so launches
/// with different constants have different instances of the module. The constants are then copied only once, when the
/// weights have arrived; a call has the same launches, which may start as early, as without constants.
class LoadedKernels {
public:
  using Weights = std::map<std::string, DeviceMemory, std::less<>>;

  /// Loads the kernels that the plan launches. Error: errors of the device, and a kernel whose parameters differ from a
  /// launch's arguments.
  static Expected<LoadedKernels> load(Device &device, const Plan &plan, const KernelFiles &files);

  /// The kernel of one of the plan's launches.
  const DeviceKernel *find(const PlanLaunch &launch) const;

  /// Copies the launch's weights, which must be on the device, to its constants, unless that was done before. Returns
  /// whether it enqueued a copy: the next launch must then wait for all work before it. Error: the kernel has no such
  /// constant.
  Expected<bool> fillConstants(const PlanLaunch &launch, const Weights &weights);
  /// Fills the constants of all launches.
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
