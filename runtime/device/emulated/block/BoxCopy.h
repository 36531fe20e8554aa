//===- BoxCopy.h - an asynchronous copy of a box of a tensor ------------------------===//
#pragma once

#include "support/ADT.h"

#include "device/tensor_copy.cuh"

namespace kiln {

/// A copy that templates/device/tensor_copy.cuh has started. It reads the tensor when its bytes arrive.
struct BoxCopy {
  TensorMap map;
  std::array<int, TensorMap::kMostDimensions> at; ///< the coordinates of the box's first element
  char *to;

  /// A part of a tensor's row that goes to a row of the box: elements from `first` on; none if it lies outside.
  struct Row {
    const char *from;
    size_t first, bytes;
  };

  /// Rows of 128 bytes in shared memory.
  size_t rows() const;
  size_t bytes() const;
  Row row(size_t index) const;

  /// What is wrong with the map, the place or the coordinates, in a phrase; nothing if all is well.
  std::optional<std::string> fault() const;

  /// Fills the box in shared memory.
  void deliver() const;

private:
  std::optional<std::string> faultOfMap() const;
};

} // namespace kiln
