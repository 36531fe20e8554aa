//===- TestDevice.h - the device that runs plans in these tests -----------===//
//
// EmulatedTestDevice.cpp runs them on the CPU, tests/gpu/GpuTestDevice.cpp on a GPU; a program links one of the two.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/device/Device.h"

namespace kiln {

/// Error: no GPU, no compiler.
Expected<std::unique_ptr<Device>> openTestDevice();

/// The same device as `--device` names it.
std::string testDeviceName();

} // namespace kiln
