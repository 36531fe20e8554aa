//===- TensorRanges.h - the memory that a launch may access ---------------===//
#pragma once

#include "support/ADT.h"

namespace kiln {

/// A tensor of a launch: the bytes behind one of its arguments.
struct TensorRange {
  const char *begin = nullptr;
  size_t bytes = 0;
  std::string name;
  bool isWritten = true; ///< the kernel may write it

  const char *end() const { return begin + bytes; }
  bool contains(const void *address, size_t accessBytes) const {
    auto *at = static_cast<const char *>(address);
    return at >= begin && at + accessBytes <= end();
  }
};

/// The range that an access lies in, or null.
const TensorRange *findRange(ArrayRef<TensorRange> ranges, const void *address, size_t bytes);

/// A phrase for an access outside all ranges, about the nearest range: `outside 'x' (256 bytes), at offset 260`; empty
/// if there are no ranges.
std::string describeOutside(ArrayRef<TensorRange> ranges, const void *address, size_t bytes);

} // namespace kiln
