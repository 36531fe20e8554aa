//===- TestDevice.h - the device that runs plans in these tests -----------===//
//
// EmulatedTestDevice.cpp runs them on the CPU, tests/gpu/GpuTestDevice.cpp on a GPU; a program links one of the two.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/device/Device.h"

namespace kiln {

/// Opens the device: of several GPUs, that of the number. The emulated device compiles kernels when they are loaded, as
/// a GPU's are compiled, only with `compilesAhead`. Error: no GPU, no compiler.
Expected<std::unique_ptr<Device>> openTestDevice(int number = 0, bool compilesAhead = false);
/// How many different devices can be opened.
int testDeviceCount();

/// The GPU whose instructions kernels may use on a device that openTestDevice() opened: sm_90a.
std::string targetOf(const Device &device);

/// The device's name for `--device`.
std::string testDeviceName();

} // namespace kiln
