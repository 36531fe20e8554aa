//===- product_boxes.cuh - boxes of the operands of products by wgmma --------------===//
//
// Copies of the left operand's rows by TMA. A plan's map has this number of rows in a box, so that few rows are copied
// fast: those past the end of the tensor take as long as those inside.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "device/base.cuh"
#include "device/index.cuh"

namespace kiln {

/// The rows of a box for tiles of kMost rows, of `rows` in all: a multiple of 8, as products take them.
template <int kMost> KILN_DEVICE int boxRows(int rows) { return min(ceilDiv(rows, 8) * 8, kMost); }

} // namespace kiln
