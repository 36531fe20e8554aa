//===- HostMatmul.h - the library's matrix product, computed on the CPU ---===//
#pragma once

#include "runtime/device/Device.h"

namespace kiln {

/// Computes a launch's product in host memory, with sums in f32 and the rows spread over all cores.
void runMatmulOnHost(const LaunchMatmul &matmul, ArrayRef<uint64_t> arguments);

} // namespace kiln
