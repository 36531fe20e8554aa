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

/// The memory of one launch. The ranges must outlive this.
class TensorRanges {
public:
  explicit TensorRanges(ArrayRef<TensorRange> ranges);

  /// The first range that an access lies in, or null. Every access of every thread calls this.
  const TensorRange *find(const void *address, size_t bytes) const;

  /// A phrase for an access outside all ranges, about the nearest range: `outside 'x' (256 bytes), at offset 260`;
  /// `outside all memory` if there are none.
  std::string describeOutside(const void *address, size_t bytes) const;

private:
  ArrayRef<TensorRange> ranges;
  /// In the order of their beginnings; empty if ranges overlap, and then all are looked at.
  std::vector<const TensorRange *> sorted;
  std::vector<const char *> begins; ///< of `sorted`
};

} // namespace kiln
