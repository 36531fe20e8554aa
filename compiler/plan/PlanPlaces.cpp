#include "plan/PlanPlaces.h"

#include "support/Diagnostic.h"

namespace kiln {

Error Place::fail(const Twine &message) const { return makeError(value->loc, key + ": " + message); }

DimPoints::DimPoints(ArrayRef<PlanDim> dims) {
  DimBinding smallest, largest;
  for (const PlanDim &dim : dims) {
    smallest[dim.name] = dim.min;
    largest[dim.name] = dim.max;
  }
  points = {smallest, largest};
  for (const PlanDim &dim : dims) {
    DimBinding &point = points.emplace_back(smallest);
    point[dim.name] = dim.max;
  }
}

int64_t checkedValue(const Expr &expr, const DimBinding &dims) {
  return cantFail(expr.evaluate(dims), "checked before");
}

std::string describePoint(const DimBinding &dims) {
  auto binding = [](const auto &entry) { return entry.first + " = " + std::to_string(entry.second); };
  return dims.empty() ? "" : " with " + llvm::join(llvm::map_range(dims, binding), ", ");
}

Error DimPoints::check(Place place, const Expr &expr, int64_t least, int64_t most) const {
  for (const DimBinding &dims : points) {
    Expected<int64_t> value = expr.evaluate(dims);
    if (!value)
      return place.fail(takeDiagnostics(value.takeError()).front().message);
    if (*value >= least && *value <= most)
      continue;
    std::string range =
        most == INT64_MAX ? formatv("{0} or more", least).str() : formatv("a value from {0} to {1}", least, most).str();
    return place.fail("expected " + range + ", got '" + expr.str() + "' = " + Twine(*value) + describePoint(dims));
  }
  return Error::success();
}

Error DimPoints::check(Place place, const PlanTensor &tensor) const {
  for (const auto &[i, extent] : llvm::enumerate(tensor.shape))
    if (Error error = check(place["shape"][i], extent, 1))
      return error;
  return check(place["shape"], tensor.bytes(), 0);
}

} // namespace kiln
