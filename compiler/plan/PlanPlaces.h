//===- PlanPlaces.h - where the values of a plan stand, and what formulas give -===//
#pragma once

#include "plan/Plan.h"
#include "support/Config.h"

namespace kiln {

/// A value of the document: `Place(root)["functions"][2]["arena"]`. A value that is not there, because it is optional,
/// has the place of what it would be in.
class Place {
public:
  Place(const ConfigValue &value) : value(&value) {} // NOLINT(google-explicit-constructor)

  Place operator[](StringRef key) const {
    const ConfigValue *member = value->find(key);
    return member ? Place(*member, key) : Place(*value, key);
  }
  Place operator[](size_t index) const { return index < value->array.size() ? Place(value->array[index], key) : *this; }

  /// `LOC: error: KEY: MESSAGE`.
  Error fail(const Twine &message) const;

private:
  Place(const ConfigValue &value, StringRef key) : value(&value), key(key) {}

  const ConfigValue *value;
  StringRef key;
};

/// Dims at which a plan's formulas are tried: all at their lower bounds, all at their upper bounds, and each alone at
/// its upper bound. Formulas grow with the dims, so what holds at the ends holds between.
class DimPoints {
public:
  explicit DimPoints(ArrayRef<PlanDim> dims);

  ArrayRef<DimBinding> all() const { return points; }

  /// Error: at one of the points the formula has no value, or one outside the bounds.
  Error check(Place place, const Expr &expr, int64_t least, int64_t most = INT64_MAX) const;
  /// Extents of 1 or more, and a size in bytes that fits in 63 bits.
  Error check(Place place, const PlanTensor &tensor) const;

private:
  std::vector<DimBinding> points;
};

/// The value of a formula that was checked.
int64_t checkedValue(const Expr &expr, const DimBinding &dims);

/// ` with B = 1, T = 1024`.
std::string describePoint(const DimBinding &dims);

} // namespace kiln
