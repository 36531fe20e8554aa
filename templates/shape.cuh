//===- shape.cuh - integer arithmetic on extents, tiles and vector widths ----===//
//
// Small constant functions from which every template derives its tile counts. None of them touches memory.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "device/base.cuh"

namespace kiln {

KILN_DEVICE constexpr bool isPowerOfTwo(int value) { return value > 0 && (value & (value - 1)) == 0; }

/// The widest power of two, at most `limit`, that divides `extent`; 1 if the extent is known only at run time (0). Rows
/// of `extent` elements can then be read in vectors of that width, none of which crosses the end of a row.
KILN_DEVICE constexpr int widestVector(int extent, int limit) {
  int width = 1;
  while (extent > 0 && 2 * width <= limit && extent % (2 * width) == 0)
    width *= 2;
  return width;
}

/// The most shared memory that a kernel may declare statically on every GPU, in bytes; a launch must request more.
constexpr int kStaticSharedBytes = 48 * 1024;

} // namespace kiln
