#include "runtime/device/emulated/block/SharedMemory.h"

#include <cstdlib>

namespace kiln {

/// The largest alignment that a variable may ask for.
static constexpr size_t spaceAlignment = 1024;
/// Alignment of dynamic memory: exactly what dynamicShared() promises.
static constexpr size_t dynamicAlignment = 1024;
/// Alignment of any variable: leaves room for a guard before it.
static constexpr size_t leastAlignment = 64;

void SharedMemory::clear() {
  for (Piece &piece : pieces)
    piece.memory.release();
  pieces.clear();
  used = 0;
  staticBytes = 0;
}

void SharedMemory::reset(size_t dynamicBytes) {
  clear();
  if (!space)
    space.reset(std::aligned_alloc(spaceAlignment, spaceBytes));
  dynamicMemory = dynamicBytes ? add(nullptr, dynamicBytes, dynamicAlignment) : GuardedMemory();
}

/// Adds a piece; returns an empty one if there is no room.
GuardedMemory SharedMemory::add(const void *tag, size_t bytes, size_t alignment) {
  size_t start = llvm::alignTo(used, alignment);
  size_t needed = GuardedMemory::spaceFor(bytes, alignment);
  if (start + needed > spaceBytes)
    return {};
  used = start + needed;
  pieces.push_back({tag, alignment, GuardedMemory(static_cast<char *>(space.get()) + start, bytes, alignment)});
  return pieces.back().memory;
}

void *SharedMemory::variable(const void *tag, size_t bytes, size_t alignment) {
  for (const Piece &piece : pieces)
    if (piece.tag == tag)
      return piece.memory.data();
  staticBytes += bytes;
  if (staticBytes > maxStaticBytes || alignment > spaceAlignment)
    return nullptr;
  return add(tag, bytes, std::max(alignment, leastAlignment)).data();
}

void *SharedMemory::counterpart(const void *address, SharedMemory &other) const {
  for (const Piece &piece : pieces) {
    if (!piece.memory.contains(address, 1))
      continue;
    // Blocks have one layout on a GPU, but here variables lie in the order of their first use.
    auto *begin = static_cast<char *>(piece.tag ? other.variable(piece.tag, piece.memory.size(), piece.alignment)
                                                : other.dynamicData());
    return begin ? begin + (static_cast<const char *>(address) - piece.memory.data()) : nullptr;
  }
  return nullptr;
}

std::string SharedMemory::describe(const Piece &piece, ptrdiff_t offset) {
  return formatv("outside {0} shared memory ({1} bytes), at offset {2}", piece.tag ? "static" : "dynamic",
                 piece.memory.size(), offset);
}

std::optional<std::string> SharedMemory::damage() const {
  for (const Piece &piece : pieces)
    if (std::optional<ptrdiff_t> at = piece.memory.damage())
      return "wrote " + describe(piece, *at);
  return std::nullopt;
}

std::optional<std::string> SharedMemory::outside(const void *address, size_t bytes) const {
  std::optional<std::string> near;
  for (const Piece &piece : pieces) {
    if (piece.memory.contains(address, bytes))
      return std::nullopt;
    if (std::optional<ptrdiff_t> at = piece.memory.outside(address, bytes); at && !near)
      near = describe(piece, *at);
  }
  return near ? near : "outside all shared memory";
}

std::optional<AccessHistory::Race> SharedMemory::noteAccess(const void *address, size_t bytes, EmulatedAccess access,
                                                            const AccessTime &now) {
  return history.note(static_cast<const char *>(address) - static_cast<const char *>(space.get()), bytes, access, now);
}

} // namespace kiln
