#include "runtime/device/emulated/memory/Guard.h"

#include "runtime/device/emulated/memory/Sanitizer.h"

#include <algorithm>
#include <cstring>

namespace kiln {

/// The least size of a guard: the widest vector access just past the end falls inside it.
static constexpr size_t guardBytes = 64;

void fillWords(void *target, size_t bytes, uint32_t word) {
  char *at = static_cast<char *>(target);
  for (size_t i = 0; i + sizeof(word) <= bytes; i += sizeof(word))
    std::memcpy(at + i, &word, sizeof(word));
  std::memcpy(at + bytes / sizeof(word) * sizeof(word), &word, bytes % sizeof(word));
}

bool holdsPoison(const void *source, size_t bytes) {
  auto *at = static_cast<const char *>(source);
  if (bytes == sizeof(uint16_t)) {
    uint16_t half;
    std::memcpy(&half, at, sizeof(half));
    return half == static_cast<uint16_t>(poisonWord);
  }
  for (size_t i = 0; i + sizeof(poisonWord) <= bytes; i += sizeof(poisonWord)) {
    uint32_t word;
    std::memcpy(&word, at + i, sizeof(word));
    if (word == poisonWord)
      return true;
  }
  return false;
}

size_t GuardedMemory::spaceFor(size_t bytes, size_t alignment) {
  assert(alignment >= guardBytes && "the front guard fills the alignment");
  return alignment + llvm::alignTo(bytes + guardBytes, alignment);
}

GuardedMemory::GuardedMemory(void *space, size_t bytes, size_t alignment)
    : base(static_cast<char *>(space) + alignment), bytes(bytes), before(alignment),
      after(spaceFor(bytes, alignment) - alignment - bytes) {
  allowAccess(space, spaceFor(bytes, alignment));
  fillWords(base, bytes, poisonWord);
  repair();
  forbidAccess(base - before, before);
  forbidAccess(base + bytes, after);
}

std::optional<ptrdiff_t> GuardedMemory::outside(const void *address, size_t accessBytes) const {
  ptrdiff_t at = static_cast<const char *>(address) - base;
  ptrdiff_t end = at + static_cast<ptrdiff_t>(accessBytes);
  if (at >= 0 && end <= static_cast<ptrdiff_t>(bytes))
    return std::nullopt;
  bool isNear = end > -static_cast<ptrdiff_t>(before) && at < static_cast<ptrdiff_t>(bytes + after);
  return isNear ? std::optional(at) : std::nullopt;
}

void GuardedMemory::repair() {
  fillWords(base - before, before, guardWord);
  fillWords(base + bytes, after, guardWord);
}

/// Whether `guardBytes` bytes differ from fillWords' pattern. Every wait of every thread calls this, so it takes only
/// eight loads.
static bool isDamaged(const char *guard) {
  constexpr uint64_t pattern = static_cast<uint64_t>(guardWord) << 32 | guardWord;
  uint64_t difference = 0;
  for (size_t i = 0; i < guardBytes; i += sizeof(uint64_t)) {
    uint64_t bits;
    std::memcpy(&bits, guard + i, sizeof(bits));
    difference |= bits ^ pattern;
  }
  return difference != 0;
}

/// The offset of the first byte that differs in a damaged guard.
static ptrdiff_t firstDifference(const char *guard) {
  char whole[guardBytes];
  fillWords(whole, guardBytes, guardWord);
  return std::mismatch(whole, whole + guardBytes, guard).first - whole;
}

std::optional<ptrdiff_t> GuardedMemory::damage() const {
  // Under AddressSanitizer, touching a guard ends the program, and so would this check.
  if (hasAddressSanitizer || !base)
    return std::nullopt;
  if (isDamaged(base + bytes))
    return static_cast<ptrdiff_t>(bytes) + firstDifference(base + bytes);
  if (isDamaged(base - guardBytes))
    return firstDifference(base - guardBytes) - static_cast<ptrdiff_t>(guardBytes);
  return std::nullopt;
}

void GuardedMemory::release() {
  if (base)
    allowAccess(base - before, before + bytes + after);
  base = nullptr;
}

} // namespace kiln
