//===- WgmmaRows.h - what gemv_wgmma can do, as passes ask it ---------------===//
#pragma once

#include "ir/IR.h"
#include "kernels/targets/Target.h"

namespace kiln {

/// Whether a kernel for few rows can add up the parts of a product that all ranks have, at the upper bounds of its
/// dims: one for any number of rows, so that all give a row the same bits.
bool canSumParts(const Op &product, const Target &target);

} // namespace kiln
