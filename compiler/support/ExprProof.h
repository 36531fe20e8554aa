//===- ExprProof.h - what holds of formulas whatever the dims are ------------===//
//
// A plan runs with any dims within its bounds, too many to try. What this proves holds for all of them; what it does
// not prove may hold all the same.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "support/Expr.h"

namespace kiln {

/// The least and the greatest value of every dim, both included and none negative.
struct DimBounds {
  DimBinding low, high;
};

/// The greatest divisor of `modulus`, which is positive, that is known to divide every value of the formula.
int64_t knownDivisor(const Expr &expr, int64_t modulus);

/// Whether it is proved that a <= b for all dims within the bounds. No, if one of the two has a name without bounds.
bool isNeverMore(const Expr &a, const Expr &b, const DimBounds &bounds);

} // namespace kiln
