//===- TensorMaps.h - the tensor maps of a launch on the CPU ------------------===//
#pragma once

#include "runtime/device/Device.h"

#include "device/tensor_copy.cuh"

namespace kiln {

/// The map as kernels on the CPU have it, of the tensor at `address`.
TensorMap encodeForHost(const LaunchMap &map, uint64_t address);

} // namespace kiln
