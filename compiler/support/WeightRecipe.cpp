#include "support/WeightRecipe.h"

#include "support/Diagnostic.h"

#include <limits>

namespace kiln {

std::string shapeString(ArrayRef<int64_t> shape) {
  return "[" + llvm::join(llvm::map_range(shape, [](int64_t size) { return std::to_string(size); }), ",") + "]";
}

std::optional<int64_t> elementCount(ArrayRef<int64_t> shape) {
  int64_t count = 1;
  for (int64_t size : shape)
    if (size < 0 || __builtin_mul_overflow(count, size, &count))
      return std::nullopt;
  return count;
}

SmallVector<int64_t, 2> WeightRecipe::unpaddedShape() const {
  SmallVector<int64_t, 2> result = sourceShape;
  if (transpose)
    std::swap(result[0], result[1]);
  return result;
}

Expected<int64_t> packedSize(const WeightRecipe &recipe) {
  auto fail = [&](const Twine &message) { return makeError("weight '" + recipe.source + "': " + message); };
  if (!isFloat(recipe.dtype))
    return fail("expected to pack to a float type, got " + dtypeName(recipe.dtype));
  if (recipe.transpose && recipe.sourceShape.size() != 2)
    return fail("expected a matrix to transpose, got shape " + shapeString(recipe.sourceShape));
  SmallVector<int64_t, 2> shape = recipe.unpaddedShape();
  auto fits = [&](int64_t size, int64_t packed) { return recipe.pad ? packed >= size : packed == size; };
  if (shape.size() != recipe.shape.size() || !llvm::all_of_zip(shape, recipe.shape, fits))
    return fail("expected a packed shape of " + StringRef(recipe.pad ? "at least " : "") + shapeString(shape) +
                ", got " + shapeString(recipe.shape));
  std::optional<int64_t> count = elementCount(recipe.shape);
  constexpr int64_t maxCount = std::numeric_limits<int64_t>::max() / 4;
  if (!count || *count > maxCount || !elementCount(recipe.sourceShape))
    return fail("expected a size that fits in 63 bits, got shape " + shapeString(recipe.shape));
  return *count * dtypeSize(recipe.dtype);
}

} // namespace kiln
