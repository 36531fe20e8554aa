#include "plan/MapChecks.h"

namespace kiln {

// The limits of cuTensorMapEncodeTiled, but that a kernel's coordinates are ints, so extents are no larger.
constexpr size_t minMapRank = 2, maxMapRank = 5;
constexpr int64_t maxMapExtent = INT32_MAX, maxMapStride = (int64_t(1) << 40) - 1, maxBoxExtent = 256;
constexpr int64_t mapAlignment = 16;

// The first dimension of a box is one row of a swizzled tile.
constexpr int64_t boxRowBytes = 128;

static Error checkBox(const PlanTensorMap &map, Place place, const FormulaChecks &formulas) {
  if (map.box.size() != map.extents.size())
    return place.fail("expected " + Twine(map.extents.size()) + " extents, one for each of the tensor's, got " +
                      Twine(map.box.size()));
  const int64_t rowElements = boxRowBytes / dtypeSize(map.dtype);
  if (map.box.front().asConstant() != rowElements)
    return place[0].fail("expected rows of " + Twine(boxRowBytes) + " bytes, " + Twine(rowElements) +
                         " elements, got " + map.box.front().str());
  Expr bytes(boxRowBytes);
  for (const auto &[i, extent] : llvm::enumerate(llvm::drop_begin(map.box))) {
    if (Error error = formulas.checkRange(place[i + 1], extent, 1, maxBoxExtent))
      return error;
    bytes = bytes * extent;
  }
  return formulas.checkRange(place, bytes, 1, maxSharedBytes);
}

static Error checkMap(const PlanTensorMap &map, Place place, const FormulaChecks &formulas) {
  const size_t rank = map.extents.size();
  if (rank < minMapRank || rank > maxMapRank)
    return place["extents"].fail("expected " + Twine(minMapRank) + " to " + Twine(maxMapRank) + " extents, got " +
                                 Twine(rank));
  if (map.strides.size() != rank - 1)
    return place["strides"].fail("expected " + Twine(rank - 1) +
                                 " strides, those of all dimensions but the first, got " + Twine(map.strides.size()));
  for (const auto &[i, extent] : llvm::enumerate(map.extents))
    if (Error error = formulas.checkRange(place["extents"][i], extent, 1, maxMapExtent))
      return error;
  for (const auto &[i, stride] : llvm::enumerate(map.strides)) {
    if (Error error = formulas.checkRange(place["strides"][i], stride, mapAlignment, maxMapStride))
      return error;
    if (Error error = formulas.checkMultiple(place["strides"][i], stride, mapAlignment))
      return error;
  }
  return checkBox(map, place["box"], formulas);
}

Error checkMaps(ArrayRef<PlanTensorMap> maps, Place place, const FormulaChecks &formulas) {
  for (const auto &[i, map] : llvm::enumerate(maps)) {
    if (i > 0 && map.argument <= maps[i - 1].argument)
      return place[i]["argument"].fail("expected an argument behind that of the map before it, got " +
                                       Twine(map.argument));
    if (Error error = checkMap(map, place[i], formulas))
      return error;
  }
  return Error::success();
}

/// Checks that the last element that the map describes lies inside the tensor. The sum has a stride too many for each
/// dimension, since formulas have no subtraction; so the size gets them, too.
static Error checkEnd(const PlanTensorMap &map, Place place, StringRef name, const Expr &bytes,
                      const FormulaChecks &formulas) {
  Expr end = Expr(dtypeSize(map.dtype)) * map.extents.front(), limit = bytes;
  for (const auto &[extent, stride] : llvm::zip(llvm::drop_begin(map.extents), map.strides)) {
    end = end + extent * stride;
    limit = limit + stride;
  }
  for (const Expr &expr : {end, limit})
    if (Error error = formulas.checkRange(place, expr, 0))
      return error;
  if (formulas.isNeverMore(end, limit))
    return Error::success();
  std::string where = formulas.whereMore(end, limit);
  return place.fail("the kernel's tensor map reaches past '" + name + "'" + (where.empty() ? ", or may" : where));
}

Error checkMappedArguments(const PlanLaunch &launch, ArrayRef<PlanTensorMap> maps, Place place,
                           const FormulaChecks &formulas, const TensorMemories &tensors) {
  for (const PlanTensorMap &map : maps) {
    const auto at = static_cast<size_t>(map.argument);
    if (at >= launch.arguments.size())
      return place.fail("expected argument " + Twine(at) + ", of which kernel '" + launch.kernel +
                        "' takes a tensor map, got " + Twine(launch.arguments.size()) + " arguments");
    StringRef argument = launch.arguments[at], name = argument;
    if (!name.consume_front("%"))
      return place[at].fail("expected the name of a tensor, of which kernel '" + launch.kernel +
                            "' takes a map, got '" + argument + "'");
    const TensorMemory &tensor = tensors.find(name)->second;
    if (tensor.dtype != map.dtype)
      return place[at].fail("expected a tensor of " + dtypeName(map.dtype) + ", as in the map of kernel '" +
                            launch.kernel + "', got '" + argument + "' of " + dtypeName(tensor.dtype));
    if (tensor.alignment % mapAlignment != 0)
      return place[at].fail("expected a tensor at a multiple of " + Twine(mapAlignment) +
                            " bytes for the map of kernel '" + launch.kernel + "', got '" + argument + "'");
    if (Error error = checkEnd(map, place[at], argument, tensor.bytes, formulas))
      return error;
  }
  return Error::success();
}

} // namespace kiln
