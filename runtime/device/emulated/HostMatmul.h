//===- HostMatmul.h - a library's product without the library -----------------===//
#pragma once

#include "runtime/device/Device.h"

namespace kiln {

/// Computes a launch's product in memory of the host, sums in f32, rows over all cores.
void runMatmulOnHost(const LaunchMatmul &matmul, ArrayRef<uint64_t> arguments);

} // namespace kiln
