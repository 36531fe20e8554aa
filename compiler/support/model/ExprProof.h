//===- ExprProof.h - proofs about formulas for all dims -------------------===//
//
// A plan runs with any dims within its bounds, which are too many to try. What is proved here holds for all of them;
// what cannot be proved may still hold.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "support/model/Expr.h"

namespace kiln {

/// The least and the greatest value of every dim, both inclusive and not negative.
struct DimBounds {
  DimBinding low, high;
};

/// The greatest divisor of `modulus` that is known to divide every value of the formula. `modulus` is positive.
int64_t knownDivisor(const Expr &expr, int64_t modulus);

/// Whether a <= b can be proved for all dims within the bounds. False if a name has no bounds.
bool isNeverMore(const Expr &a, const Expr &b, const DimBounds &bounds);

} // namespace kiln
