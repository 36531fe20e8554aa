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

Error checkArrays(const PlanKernel &kernel, Place place) {
  int64_t next = 0;
  for (const auto &[i, array] : llvm::enumerate(kernel.arrays)) {
    if (array.argument < next)
      return place[i]["argument"].fail("expected an argument behind those of the array before it, got " +
                                       Twine(array.argument));
    if (array.size > INT32_MAX || array.argument > INT32_MAX)
      return place[i]["size"].fail("expected fewer arguments, got " + Twine(array.size));
    next = array.argument + array.size;
    for (const PlanTensorMap &map : kernel.maps)
      if (map.argument > array.argument && map.argument < next)
        return place[i]["size"].fail("expected an array in front of argument " + Twine(map.argument) +
                                     ", which is a map of its own, got " + Twine(array.size) + " arguments from " +
                                     Twine(array.argument) + " on");
  }
  return Error::success();
}

/// The name of the tensor that is argument `at`. Error: there is no such argument, or it is no tensor; `what` the
/// kernel takes there.
static Expected<StringRef> tensorAt(const PlanLaunch &launch, size_t at, StringRef what, Place place) {
  if (at >= launch.arguments.size())
    return place.fail("expected argument " + Twine(at) + ", of which kernel '" + launch.kernel + "' takes " + what +
                      ", got " + Twine(launch.arguments.size()) + " arguments");
  StringRef name = launch.arguments[at];
  if (!name.consume_front("%"))
    return place[at].fail("expected the name of a tensor, of which kernel '" + launch.kernel + "' takes " + what +
                          ", got '" + launch.arguments[at] + "'");
  return name;
}

static Error checkMapped(const PlanLaunch &launch, const PlanTensorMap &map, size_t at, Place place,
                         const FormulaChecks &formulas, const TensorMemories &tensors) {
  Expected<StringRef> name = tensorAt(launch, at, "a tensor map", place);
  if (!name)
    return name.takeError();
  StringRef argument = launch.arguments[at];
  const TensorMemory &tensor = tensors.find(*name)->second;
  if (tensor.dtype != map.dtype)
    return place[at].fail("expected a tensor of " + dtypeName(map.dtype) + ", as in the map of kernel '" +
                          launch.kernel + "', got '" + argument + "' of " + dtypeName(tensor.dtype));
  if (tensor.alignment % mapAlignment != 0)
    return place[at].fail("expected a tensor at a multiple of " + Twine(mapAlignment) +
                          " bytes for the map of kernel '" + launch.kernel + "', got '" + argument + "'");
  return checkEnd(map, place[at], argument, tensor.bytes, formulas);
}

/// Whether the array has what ranks 0, 1, and so on have of one thing: their inboxes, their mailboxes, or a buffer.
static bool isOfRanks(const PlanLaunch &launch, const PlanArray &array) {
  StringRef buffer;
  const auto first = static_cast<size_t>(array.argument);
  auto numberOf = first < launch.arguments.size() && mailboxesOf(launch.arguments[first]) ? mailboxesOf : inboxOf;
  for (int64_t i = 0; i < array.size; ++i) {
    auto at = static_cast<size_t>(array.argument + i);
    if (at >= launch.arguments.size())
      return false;
    std::optional<RankBuffer> own = rankBufferOf(launch.arguments[at]);
    if (own && i == 0)
      buffer = own->buffer;
    bool isOf = own ? own->rank == i && own->buffer == buffer : numberOf(launch.arguments[at]) == i && buffer.empty();
    if (!isOf)
      return false;
  }
  return true;
}

Error checkTensorArguments(const PlanLaunch &launch, const PlanKernel &kernel, Place place,
                           const FormulaChecks &formulas, const TensorMemories &tensors) {
  for (const PlanArray &array : kernel.arrays)
    if (!isOfRanks(launch, array))
      for (int64_t i = 0; i < array.size; ++i)
        if (auto name = tensorAt(launch, static_cast<size_t>(array.argument + i), "an array of tensors", place); !name)
          return name.takeError();
  for (const PlanTensorMap &map : kernel.maps)
    for (int64_t i = 0; i < kernel.argumentsAt(map.argument); ++i)
      if (Error error = checkMapped(launch, map, static_cast<size_t>(map.argument + i), place, formulas, tensors))
        return error;
  return Error::success();
}

} // namespace kiln
