//===- product_boxes.cuh - boxes of the operands of products by wgmma --------------===//
//
// Copies of the left operand's rows by TMA. A plan's map has boxRows rows in a box, so that few rows are copied fast:
// those past the end of the tensor take longer than those inside. So the last of several tiles may begin earlier, at a
// row that the tile before has, too. Smaller boxes, of which those past the end are left out, took longer for all tiles
// (docs/experiments/prompts.md).
//
//===----------------------------------------------------------------------===//
#pragma once

#include "device/base.cuh"
#include "device/index.cuh"

namespace kiln {

/// The rows of a box for tiles of kMost rows, of `rows` in all: a multiple of 8, as products take them.
template <int kMost> KILN_DEVICE int boxRows(int rows) { return min(ceilDiv(rows, 8) * 8, kMost); }

/// With fewer rows past the end, a tile begins where it would.
constexpr int kFewestPast = 32;

/// The first row of a tile of kM rows, of `rows` in all: `own`, where the tile before ends, or so that it ends with the
/// last row.
template <int kM> KILN_DEVICE int firstRowOfTile(int own, int rows) {
  return rows >= kM && own + kM - rows >= kFewestPast ? rows - kM : own;
}

} // namespace kiln
