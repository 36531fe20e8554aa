#include "runtime/device/emulated/block/BoxCopy.h"

#include <cstring>

namespace kiln {

/// The most places of a box in a dimension (CUDA driver API, cuTensorMapEncodeTiled).
static constexpr u32 maxBoxExtent = 256;

size_t BoxCopy::rows() const {
  size_t rows = 1;
  for (u32 d = 1; d < map.rank; ++d)
    rows *= map.box[d];
  return rows;
}

size_t BoxCopy::bytes() const { return rows() * kSwizzledRowBytes; }

BoxCopy::Row BoxCopy::row(size_t index) const {
  int64_t offset = 0;
  for (u32 d = 1; d < map.rank; ++d) {
    const int64_t place = at[d] + static_cast<int64_t>(index % map.box[d]);
    index /= map.box[d];
    if (place < 0 || place >= map.extents[d])
      return {nullptr, 0, 0};
    offset += place * static_cast<int64_t>(map.strides[d - 1]);
  }
  const int64_t begin = std::max(at[0], 0);
  const int64_t end = std::min<int64_t>(static_cast<int64_t>(at[0]) + map.box[0], map.extents[0]);
  if (begin >= end)
    return {nullptr, 0, 0};
  return {static_cast<const char *>(map.data) + offset + begin * map.elementBytes,
          static_cast<size_t>(begin - at[0]) * map.elementBytes, static_cast<size_t>(end - begin) * map.elementBytes};
}

static std::string list(ArrayRef<int64_t> numbers) {
  std::string text;
  for (int64_t number : numbers)
    text += (text.empty() ? "(" : ", ") + std::to_string(number);
  return text + ")";
}

std::optional<std::string> BoxCopy::faultOfMap() const {
  if (map.box[0] * map.elementBytes != kSwizzledRowBytes)
    return formatv("expected a box of {0} bytes in its first dimension, got {1}", kSwizzledRowBytes,
                   map.box[0] * map.elementBytes);
  for (u32 d = 0; d < map.rank; ++d)
    if (map.box[d] == 0 || map.box[d] > maxBoxExtent)
      return formatv("expected a box of 1 to {0} places in each dimension, got {1}", maxBoxExtent, map.box[d]);
  if (reinterpret_cast<uintptr_t>(map.data) % kChunkBytes != 0)
    return formatv("expected a tensor at a multiple of {0} bytes", kChunkBytes).str();
  for (u32 d = 1; d < map.rank; ++d)
    if (map.strides[d - 1] % kChunkBytes != 0)
      return formatv("expected strides that are multiples of {0} bytes, got {1}", kChunkBytes, map.strides[d - 1]);
  return std::nullopt;
}

std::optional<std::string> BoxCopy::fault() const {
  if (std::optional<std::string> fault = faultOfMap())
    return fault;
  if (reinterpret_cast<uintptr_t>(to) % kWarpgroupTileAlignment != 0)
    return formatv("expected a place in shared memory at a multiple of {0} bytes", kWarpgroupTileAlignment).str();
  bool isOutside = false;
  for (u32 d = 0; d < map.rank; ++d)
    isOutside |= at[d] >= static_cast<int64_t>(map.extents[d]) || at[d] + static_cast<int64_t>(map.box[d]) <= 0;
  if (!isOutside)
    return std::nullopt;
  auto numbers = [&](const auto &values) { return list(SmallVector<int64_t>(values, values + map.rank)); };
  return formatv("a box outside its tensor: {0} elements at {1}, in a tensor of {2}", numbers(map.box),
                 numbers(at.data()), numbers(map.extents));
}

void BoxCopy::deliver() const {
  for (size_t i = 0; i < rows(); ++i) {
    char line[kSwizzledRowBytes] = {};
    if (Row part = row(i); part.bytes > 0)
      std::memcpy(line + part.first, part.from, part.bytes);
    const u32 index = static_cast<u32>(i);
    for (u32 chunk = 0; chunk < kRowChunks; ++chunk)
      std::memcpy(to + swizzledOffset(index, chunk, index), line + chunk * kChunkBytes, kChunkBytes);
  }
}

} // namespace kiln
