//===- FormulaChecks.h - checks of a plan's formulas ----------------------===//
#pragma once

#include "plan/Plan.h"
#include "plan/PlanPlaces.h"
#include "support/model/ExprProof.h"

namespace kiln {

/// Checks formulas for all dims within a plan's bounds. A formula never decreases when a dim grows, so its values lie
/// between those at the lower bounds and those at the upper bounds. Other conditions are proved (ExprProof.h), and
/// refused where no proof is found; the message names dims that violate the condition, if some are found.
class FormulaChecks {
public:
  explicit FormulaChecks(ArrayRef<PlanDim> dims);

  bool hasDim(StringRef name) const { return bounds.low.find(name) != bounds.low.end(); }

  /// Error: the formula has no value, or one outside the bounds.
  Error checkRange(Place place, const Expr &expr, int64_t least, int64_t most = INT64_MAX) const;
  /// Checks that there are few extents, each 1 or more, and that the size in bytes fits in 63 bits.
  Error checkTensor(Place place, const PlanTensor &tensor) const;
  /// Error: a value that is not a multiple.
  Error checkMultiple(Place place, const Expr &expr, int64_t of) const;

  bool isNeverMore(const Expr &a, const Expr &b) const { return kiln::isNeverMore(a, b, bounds); }
  /// `at most 4, got 5 with B = 1, T = 1`, for an `a` that may be more than `b`.
  std::string describeMore(const Expr &a, const Expr &b) const;
  /// ` with B = 1, T = 1`, where a is more than b; nothing if no such dims are known.
  std::string whereMore(const Expr &a, const Expr &b) const;

  /// The least and the greatest value of a formula that was checked.
  int64_t lowest(const Expr &expr) const { return cantFail(expr.evaluate(bounds.low)); }
  int64_t highest(const Expr &expr) const { return cantFail(expr.evaluate(bounds.high)); }

private:
  /// The first of `points` at which a condition holds; null if there is none.
  const DimBinding *find(function_ref<bool(const DimBinding &)> holds) const;
  const DimBinding *findMore(const Expr &a, const Expr &b) const;

  DimBounds bounds;
  std::vector<DimBinding> points; ///< for messages: all dims at their lower and at their upper bounds, and each dim
                                  ///< alone at its upper bound
};

} // namespace kiln
