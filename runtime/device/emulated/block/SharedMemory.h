//===- SharedMemory.h - the shared memory of one block ----------------------------===//
#pragma once

#include "runtime/device/emulated/block/AccessHistory.h"
#include "runtime/device/emulated/memory/Guard.h"

namespace kiln {

/// The dynamic shared memory of a block and its static variables, each between guards of its own. One object serves one
/// block after another.
class SharedMemory {
public:
  /// Bytes of static variables that a kernel may have, and of both kinds together (a Hopper block's limit).
  static constexpr size_t maxStaticBytes = 48 << 10;
  static constexpr size_t maxBytes = 227 << 10;

  SharedMemory() = default;
  SharedMemory(SharedMemory &&) noexcept = default;
  SharedMemory &operator=(SharedMemory &&) noexcept = default;
  ~SharedMemory() { clear(); }

  /// Starts a block: no static variables, and dynamic memory as if fresh.
  void reset(size_t dynamicBytes);

  void *dynamicData() const { return dynamicMemory.data(); }
  size_t dynamicBytes() const { return dynamicMemory.size(); }

  /// The variable `tag`, made at the first call; null if there is no room for it.
  void *variable(const void *tag, size_t bytes, size_t alignment);

  /// Where an address of a variable lies in the memory of another block; null if it is in no variable.
  void *counterpart(const void *address, SharedMemory &other) const;

  /// Whether an address is in the space of all variables and the guards around them.
  bool contains(const void *address) const {
    return static_cast<size_t>(static_cast<const char *>(address) - static_cast<const char *>(space.get())) <
           spaceBytes;
  }
  /// A phrase about an access to the space that is not inside one variable.
  std::optional<std::string> outside(const void *address, size_t bytes) const;
  /// A phrase about the access that an access inside a variable races with.
  std::optional<AccessHistory::Race> noteAccess(const void *address, size_t bytes, EmulatedAccess access,
                                                const AccessTime &now);
  void forgetAccesses() { history.clear(); }

  /// A sentence about a guard that was overwritten, if there is one.
  std::optional<std::string> damage() const;

private:
  /// With the guards of all variables.
  static constexpr size_t spaceBytes = maxBytes + (64 << 10);

  struct Piece {
    const void *tag; ///< null for the dynamic memory
    size_t alignment;
    GuardedMemory memory;
  };
  struct Free {
    void operator()(void *space) const { std::free(space); }
  };

  static std::string describe(const Piece &piece, ptrdiff_t offset);
  void clear();
  GuardedMemory add(const void *tag, size_t bytes, size_t alignment);

  std::unique_ptr<void, Free> space; ///< as large as the largest block needs
  AccessHistory history;             ///< of checked accesses
  size_t used = 0;
  size_t staticBytes = 0;
  GuardedMemory dynamicMemory; ///< one of the pieces, unless it is empty
  SmallVector<Piece, 4> pieces;
};

} // namespace kiln
