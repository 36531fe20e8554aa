//===- Guard.h - memory that detects misuse -------------------------------===//
//
// Every piece of emulated device memory is filled with NaN at first and lies between two guards. A kernel that reads
// memory before it is written, or past an end, computes NaN; `damage` finds a write past an end. Under AddressSanitizer
// any access to a guard is an error, which is reported where it happens.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "support/ADT.h"

#include "device/emulated.cuh"

namespace kiln {

/// The content of fresh memory.
inline constexpr uint32_t poisonWord = kEmulatedPoison;
/// The content of guards: another NaN.
inline constexpr uint32_t guardWord = 0x7feb7feb;

/// Whether `bytes` bytes contain a word that nothing has written since it was poisoned, or are half of such a word.
bool holdsPoison(const void *source, size_t bytes);

/// Fills `bytes` bytes; the last word may be incomplete.
void fillWords(void *target, size_t bytes, uint32_t word);

/// `bytes` bytes of memory between two guards that belong to it. Does not own the memory.
class GuardedMemory {
public:
  /// The bytes that a piece takes with its guards, when it starts at a multiple of `alignment` (at least 64).
  static size_t spaceFor(size_t bytes, size_t alignment);

  GuardedMemory() = default;

  /// Makes a piece inside `space`, which has `spaceFor(bytes, alignment)` bytes and is aligned to
  /// `alignment`: it fills guards and memory.
  GuardedMemory(void *space, size_t bytes, size_t alignment);

  char *data() const { return base; }
  size_t size() const { return bytes; }

  /// Nothing while both guards are intact; else the offset from `data()` of the first damaged byte (negative: before
  /// the memory).
  std::optional<ptrdiff_t> damage() const;

  bool contains(const void *address, size_t accessBytes) const {
    auto *at = static_cast<const char *>(address);
    return at >= base && at + accessBytes <= base + bytes;
  }

  /// Nothing if the access is inside the memory, or nowhere near it; else its offset from `data()`.
  std::optional<ptrdiff_t> outside(const void *address, size_t accessBytes) const;

  /// Restores both guards.
  void repair();

  /// Allows accesses to the guards again; call it before the space is used for something else.
  void release();

private:
  char *base = nullptr;
  size_t bytes = 0;
  size_t before = 0; ///< bytes of the guard before the memory, and of the guard after it
  size_t after = 0;
};

} // namespace kiln
