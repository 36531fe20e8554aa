#include "runtime/device/emulated/memory/TensorRanges.h"

namespace kiln {

TensorRanges::TensorRanges(ArrayRef<TensorRange> ranges) : ranges(ranges) {
  for (const TensorRange &range : ranges)
    sorted.push_back(&range);
  llvm::stable_sort(sorted, [](const TensorRange *a, const TensorRange *b) { return a->begin < b->begin; });
  // A launch may have the same memory as several arguments.
  auto isSame = [](const TensorRange *a, const TensorRange *b) {
    return a->begin == b->begin && a->bytes == b->bytes && a->isWritten == b->isWritten;
  };
  sorted.erase(llvm::unique(sorted, isSame), sorted.end());
  for (size_t i = 1; i < sorted.size(); ++i)
    if (sorted[i - 1]->end() > sorted[i]->begin) {
      sorted.clear();
      break;
    }
  for (const TensorRange *range : sorted)
    begins.push_back(range->begin);
}

const TensorRange *TensorRanges::find(const void *address, size_t bytes) const {
  if (sorted.empty()) {
    const auto *found = llvm::find_if(ranges, [&](const TensorRange &one) { return one.contains(address, bytes); });
    return found == ranges.end() ? nullptr : found;
  }
  const size_t behind = llvm::upper_bound(begins, static_cast<const char *>(address)) - begins.begin();
  return behind > 0 && sorted[behind - 1]->contains(address, bytes) ? sorted[behind - 1] : nullptr;
}

std::string TensorRanges::describeOutside(const void *address, size_t bytes) const {
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
