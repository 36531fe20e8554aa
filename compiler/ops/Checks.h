//===- Checks.h - checks of operands for inference ------------------------===//
#pragma once

#include "ir/IR.h"
#include "ir/Verifier.h"

namespace kiln {

/// `expected operand 'x' of rank 3, got f32[4]`.
Error expectRank(const Op &op, unsigned operand, size_t rank);
/// Operand is floating point.
Error expectFloat(const Op &op, unsigned operand);
/// Operand has this very type.
Error expectType(const Op &op, unsigned operand, const Type &type);
/// Operand has this very shape and a floating-point dtype.
Error expectFloatShape(const Op &op, unsigned operand, ArrayRef<Dim> shape);
/// Operand 0 has rows of floating point: rank 2 or more.
Error expectRows(const Op &op);
/// The type of a statistic of rows: one f32 for each row of x.
Type statisticType(const Type &x);

/// Attribute `out` of an op whose result may be of another type than an operand, and what it says: else `like`.
AttributeSpec outSpec(StringRef summary);
DType outDType(const Op &op, DType like);

} // namespace kiln
