//===- TensorMaps.h - the tensor maps of a launch on an NVIDIA GPU ------------===//
#pragma once

#include "runtime/device/Device.h"

namespace kiln {

/// A tensor map as the driver encodes it, CUtensorMap.
struct alignas(128) EncodedTensorMap {
  uint64_t words[tensorMapBytes / 8];
};

/// Encodes tensor maps. It finds the driver's function itself, as nothing links the driver.
class TensorMapEncoder {
public:
  /// Error: the driver has no such function.
  static Expected<TensorMapEncoder> create();

  /// One for each of the launch's maps. Boxes are swizzled by 128 bytes, and zero outside the tensor. Error: a map that
  /// the driver refuses; it names the kernel, the argument and the driver's reason.
  Expected<std::vector<EncodedTensorMap>> encode(const KernelLaunch &launch) const;

private:
  void *function = nullptr;
};

} // namespace kiln
