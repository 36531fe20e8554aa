#include "plan/FormulaChecks.h"

#include "support/Diagnostic.h"

namespace kiln {

// Far more than any tensor has. A size has a factor for each extent, and functions that walk over formulas recurse.
static constexpr size_t maxRank = 16;

FormulaChecks::FormulaChecks(ArrayRef<PlanDim> dims) {
  for (const PlanDim &dim : dims) {
    bounds.low[dim.name] = dim.min;
    bounds.high[dim.name] = dim.max;
  }
  points = {bounds.low, bounds.high};
  for (const PlanDim &dim : dims) {
    DimBinding &point = points.emplace_back(bounds.low);
    point[dim.name] = dim.max;
  }
}

/// The text ` with B = 1, T = 1024`.
static std::string describePoint(const DimBinding &dims) {
  auto binding = [](const auto &entry) { return entry.first + " = " + std::to_string(entry.second); };
  return dims.empty() ? "" : " with " + llvm::join(llvm::map_range(dims, binding), ", ");
}

/// The value of a formula that has been checked.
static int64_t valueAt(const Expr &expr, const DimBinding &dims) { return cantFail(expr.evaluate(dims)); }

const DimBinding *FormulaChecks::find(function_ref<bool(const DimBinding &)> holds) const {
  auto found = llvm::find_if(points, holds);
  return found == points.end() ? nullptr : &*found;
}

const DimBinding *FormulaChecks::findMore(const Expr &a, const Expr &b) const {
  return find([&](const DimBinding &dims) { return valueAt(a, dims) > valueAt(b, dims); });
}

Error FormulaChecks::checkRange(Place place, const Expr &expr, int64_t least, int64_t most) const {
  for (const DimBinding *dims : {&bounds.low, &bounds.high}) {
    Expected<int64_t> value = expr.evaluate(*dims);
    if (!value)
      return place.fail(takeDiagnostics(value.takeError()).front().message);
    if (*value >= least && *value <= most)
      continue;
    std::string range =
        most == INT64_MAX ? formatv("{0} or more", least).str() : formatv("a value from {0} to {1}", least, most).str();
    return place.fail("expected " + range + ", got '" + expr.str() + "' = " + Twine(*value) + describePoint(*dims));
  }
  return Error::success();
}

Error FormulaChecks::checkTensor(Place place, const PlanTensor &tensor) const {
  if (tensor.shape.size() > maxRank)
    return place["shape"].fail("expected at most " + Twine(maxRank) + " extents, got " + Twine(tensor.shape.size()));
  for (const auto &[i, extent] : llvm::enumerate(tensor.shape))
    if (Error error = checkRange(place["shape"][i], extent, 1))
      return error;
  return checkRange(place["shape"], tensor.bytes(), 0);
}

Error FormulaChecks::checkMultiple(Place place, const Expr &expr, int64_t of) const {
  if (knownDivisor(expr, of) == of)
    return Error::success();
  const DimBinding *at = find([&](const DimBinding &dims) { return valueAt(expr, dims) % of != 0; });
  return at ? place.fail("expected a multiple of " + Twine(of) + ", got " + Twine(valueAt(expr, *at)) +
                         describePoint(*at))
            : place.fail("expected a multiple of " + Twine(of) + " whatever the dims are, got '" + expr.str() + "'");
}

std::string FormulaChecks::describeMore(const Expr &a, const Expr &b) const {
  const DimBinding *at = findMore(a, b);
  return at ? formatv("at most {0}, got {1}{2}", valueAt(b, *at), valueAt(a, *at), describePoint(*at)).str()
            : formatv("at most '{0}' whatever the dims are, got '{1}'", b.str(), a.str()).str();
}

std::string FormulaChecks::whereMore(const Expr &a, const Expr &b) const {
  const DimBinding *at = findMore(a, b);
  return at ? describePoint(*at) : "";
}

} // namespace kiln
