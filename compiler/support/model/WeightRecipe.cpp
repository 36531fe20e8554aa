#include "support/model/WeightRecipe.h"

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

std::string WeightRecipe::problem() const {
  auto wants = [](StringRef what, const Twine &purpose, ArrayRef<int64_t> got) {
    return ("expected a " + what + " to " + purpose + ", got shape " + shapeString(got)).str();
  };
  bool isMatrix = sourceShape.size() == 2, isVector = sourceShape.size() == 1;
  if (split && !isMatrix && (!isVector || split->ofRows))
    return wants(split->ofRows ? "matrix" : "matrix or a vector", split->ofRows ? "split by rows" : "split",
                 sourceShape);
  if (split)
    if (std::string wrong = split->problem(split->ofRows ? sourceShape.front() : sourceShape.back()); !wrong.empty())
      return wrong;
  if (scale && !isMatrix)
    return wants("matrix", "scale", sourceShape);
  if (sum && !isMatrix)
    return wants("matrix", "sum", sourceShape);
  if (transpose && (!isMatrix || sum))
    return sum ? "expected a matrix to transpose, got the sums of one" : wants("matrix", "transpose", sourceShape);
  if (sum && !isFloat(*sum))
    return ("expected to round to a float type before the sum, got " + dtypeName(*sum)).str();
  if (!add)
    return "";
  if (!isVector)
    return wants("vector", "add a product to", sourceShape);
  if (add->matrixShape.size() != 2 || add->matrixShape[1] != sourceShape[0])
    return "expected a matrix of " + std::to_string(sourceShape[0]) + " columns in the product to add, got shape " +
           shapeString(add->matrixShape);
  return "";
}

WeightRecipe WeightRecipe::afterSplit() const {
  WeightRecipe own = *this;
  if (!split)
    return own;
  own.split.reset();
  int64_t &extent = split->ofRows ? own.sourceShape.front() : own.sourceShape.back();
  extent = split->room(extent);
  if (own.add)
    own.add->matrixShape.back() = extent;
  return own;
}

SmallVector<int64_t, 2> WeightRecipe::unpaddedShape() const {
  SmallVector<int64_t, 2> result = afterSplit().sourceShape;
  if (sum)
    result.erase(result.begin());
  if (transpose)
    std::swap(result[0], result[1]);
  return result;
}

SmallVector<WeightRecipe::Tensor, 3> WeightRecipe::tensors() const {
  std::optional<unsigned> rows, columns;
  if (split && split->ofRows)
    rows = 0;
  else if (split)
    columns = sourceShape.size() - 1;
  SmallVector<Tensor, 3> all = {{source, sourceShape, rows ? rows : columns}};
  if (scale)
    all.push_back({*scale, {sourceShape[0]}, rows});
  if (add) {
    if (columns)
      columns = 1;
    all.append({{add->vector, {add->matrixShape[0]}}, {add->matrix, add->matrixShape, columns}});
  }
  return all;
}

Expected<int64_t> packedSize(const WeightRecipe &recipe) {
  auto fail = [&](const Twine &message) { return makeError("weight '" + recipe.source + "': " + message); };
  if (!isFloat(recipe.dtype))
    return fail("expected to pack to a float type, got " + dtypeName(recipe.dtype));
  if (std::string problem = recipe.problem(); !problem.empty())
    return fail(problem);
  SmallVector<int64_t, 2> shape = recipe.unpaddedShape();
  auto fits = [&](int64_t size, int64_t packed) { return recipe.pad ? packed >= size : packed == size; };
  if (shape.size() != recipe.shape.size() || !llvm::all_of_zip(shape, recipe.shape, fits))
    return fail("expected a packed shape of " + StringRef(recipe.pad ? "at least " : "") + shapeString(shape) +
                ", got " + shapeString(recipe.shape));
  std::optional<int64_t> count = elementCount(recipe.shape);
  constexpr int64_t maxCount = std::numeric_limits<int64_t>::max() / 4;
  if (!count || *count > maxCount)
    return fail("expected a size that fits in 63 bits, got shape " + shapeString(recipe.shape));
  for (const WeightRecipe::Tensor &tensor : recipe.tensors())
    if (!elementCount(tensor.shape))
      return fail("expected a size that fits in 63 bits, got shape " + shapeString(tensor.shape));
  return *count * dtypeSize(recipe.dtype);
}

} // namespace kiln
