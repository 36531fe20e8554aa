#include "runtime/device/emulated/TensorMaps.h"

namespace kiln {

TensorMap encodeForHost(const LaunchMap &map, uint64_t address) {
  static_assert(sizeof(TensorMap) == tensorMapBytes);
  TensorMap encoded;
  encoded.data = reinterpret_cast<const void *>(address);
  llvm::copy(map.strides, encoded.strides);
  llvm::copy(map.extents, encoded.extents);
  llvm::copy(map.box, encoded.box);
  encoded.rank = static_cast<u32>(map.extents.size());
  encoded.elementBytes = static_cast<u32>(dtypeSize(map.dtype));
  return encoded;
}

} // namespace kiln
