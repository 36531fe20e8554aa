#include "runtime/device/emulated/memory/TensorRanges.h"

namespace kiln {

const TensorRange *findRange(ArrayRef<TensorRange> ranges, const void *address, size_t bytes) {
  // A launch has a handful of tensors.
  for (const TensorRange &range : ranges)
    if (range.contains(address, bytes))
      return &range;
  return nullptr;
}

std::string describeOutside(ArrayRef<TensorRange> ranges, const void *address, size_t bytes) {
  auto *at = static_cast<const char *>(address);
  const TensorRange *nearest = nullptr;
  size_t least = 0;
  for (const TensorRange &range : ranges) {
    size_t distance = at < range.begin ? range.begin - at : at + bytes > range.end() ? at + bytes - range.end() : 0;
    if (!nearest || distance < least) {
      nearest = &range;
      least = distance;
    }
  }
  if (!nearest)
    return "outside all memory";
  return formatv("outside '{0}' ({1} bytes), at offset {2}", nearest->name, nearest->bytes, at - nearest->begin);
}

} // namespace kiln
