#include "runtime/emulated/Guard.h"

#include "runtime/emulated/Sanitizer.h"

#include <cstring>

namespace kiln {

/// Bytes of a guard at least: a write just past the end by the widest vector access falls inside.
static constexpr size_t guardBytes = 64;

void fillWords(void *target, size_t bytes, uint32_t word) {
  char *at = static_cast<char *>(target);
  for (size_t i = 0; i + sizeof(word) <= bytes; i += sizeof(word))
    std::memcpy(at + i, &word, sizeof(word));
  std::memcpy(at + bytes / sizeof(word) * sizeof(word), &word, bytes % sizeof(word));
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

/// The place of the first byte that differs from fillWords' pattern.
static std::optional<size_t> firstDifference(const char *guard, size_t bytes) {
  for (size_t i = 0; i < bytes; i += sizeof(guardWord)) {
    uint32_t word = guardWord;
    std::memcpy(&word, guard + i, std::min(sizeof(word), bytes - i));
    if (word == guardWord)
      continue;
    for (size_t j = 0;; ++j)
      if (guard[i + j] != reinterpret_cast<const char *>(&guardWord)[j])
        return i + j;
  }
  return std::nullopt;
}

std::optional<ptrdiff_t> GuardedMemory::damage() const {
  // Under AddressSanitizer a touched guard has ended the program already, and looking would, too.
  if (hasAddressSanitizer || !base)
    return std::nullopt;
  if (std::optional<size_t> at = firstDifference(base + bytes, guardBytes))
    return static_cast<ptrdiff_t>(bytes + *at);
  if (std::optional<size_t> at = firstDifference(base - guardBytes, guardBytes))
    return static_cast<ptrdiff_t>(*at) - static_cast<ptrdiff_t>(guardBytes);
  return std::nullopt;
}

void GuardedMemory::release() {
  if (base)
    allowAccess(base - before, before + bytes + after);
  base = nullptr;
}

} // namespace kiln
