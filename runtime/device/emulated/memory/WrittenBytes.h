//===- WrittenBytes.h - which bytes of global memory have been written -----===//
#pragma once

#include "support/ADT.h"

#include <array>

namespace kiln {

/// A set of bytes, kept by pages. One thread at a time may use it.
class WrittenBytes {
public:
  void note(const void *address, size_t bytes);
  bool holdsAny(const void *address, size_t bytes) const;
  void add(const WrittenBytes &others);
  void clear();

private:
  static constexpr size_t pageBytes = 4096;
  using Page = std::array<uint64_t, pageBytes / 64>; ///< a bit for each byte

  /// Calls visit(page, word, bits) for each word of bits that has some of the bytes, until it returns true. Returns
  /// whether it has.
  template <class Visit> static bool anyWord(const void *address, size_t bytes, const Visit &visit);

  DenseMap<uintptr_t, std::unique_ptr<Page>> pages; ///< by the address divided by pageBytes
  uintptr_t latestNumber = 0;
  Page *latest = nullptr; ///< of that number
};

} // namespace kiln
