//===- Work.h - the least that an op must move and compute ------------------===//
//
// Formulas over the dims and, of attention over a cache, `past` (support/Expr.h).
//
//===----------------------------------------------------------------------===//
#pragma once

#include "ir/IR.h"

namespace kiln {

/// Bytes that the op must read and write: each input and result once; of a state written in place, the written rows
/// only; of keys and values that a region masks, the rows that some query sees.
Expr bytesMoved(const Op &op);

/// The same at given dims, with a cache that is full.
double bytesMovedAt(const Op &op, const DimBinding &dims);

/// Operations of the op, of a fused one of its whole region; of scores that it masks, of those that are seen.
Expr flopsOf(const Op &op);

} // namespace kiln
