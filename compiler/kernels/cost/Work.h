//===- Work.h - the least that an op must move and compute ------------------===//
//
// Formulas over the dims and, for attention over a cache, `past` (support/model/Expr.h).
//
//===----------------------------------------------------------------------===//
#pragma once

#include "ir/IR.h"

namespace kiln {

/// Bytes that the op must read and write: each input and result once. A state written in place counts only the written
/// rows; keys and values that a region masks count only the rows that some query sees.
Expr bytesMoved(const Op &op);

/// The bytes at given dims, with a full cache.
double bytesMovedAt(const Op &op, const DimBinding &dims);

/// Operations of the op; for a fused op, of its whole region. Masked scores do not count.
Expr flopsOf(const Op &op);

} // namespace kiln
