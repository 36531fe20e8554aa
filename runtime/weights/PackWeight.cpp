#include "runtime/weights/PackWeight.h"

#include "support/Diagnostic.h"
#include "support/process/Parallel.h"

#include <cstring>

namespace kiln {

//===----------------------------------------------------------------------===//
// Elements
//===----------------------------------------------------------------------===//

namespace {
// One type per dtype, which loads and stores its elements. Addresses may be unaligned.
struct F32 {
  using Storage = float;
  static float decode(Storage bits) { return bits; }
  static Storage encode(float value) { return value; }
};
struct F16 {
  using Storage = uint16_t;
  static float decode(Storage bits) { return fromF16(bits); }
  static Storage encode(float value) { return toF16(value); }
};
struct BF16 {
  using Storage = uint16_t;
  static float decode(Storage bits) { return fromBF16(bits); }
  static Storage encode(float value) { return toBF16(value); }
};

/// Factors of a matrix, if there are any: one for each row, or for each column, of the result.
struct Factors {
  const float *data = nullptr;
  bool areOfColumns = false;

  float at(int64_t row, int64_t column) const { return data[areOfColumns ? column : row]; }
};

/// A matrix in memory; `pitch` is in elements.
struct Source {
  const uint8_t *data;
  int64_t pitch;
};
struct Destination {
  uint8_t *data;
  int64_t pitch;
};

/// Copies between two element types.
template <typename From, typename To> struct Mover {
  static constexpr int64_t fromSize = sizeof(typename From::Storage);
  static constexpr int64_t toSize = sizeof(typename To::Storage);

  static void moveElement(const uint8_t *from, uint8_t *to) {
    typename From::Storage stored;
    std::memcpy(&stored, from, fromSize);
    typename To::Storage converted;
    if constexpr (std::is_same_v<From, To>)
      converted = stored; // a NaN keeps its payload
    else
      converted = To::encode(From::decode(stored));
    std::memcpy(to, &converted, toSize);
  }

  static void moveScaled(const uint8_t *from, uint8_t *to, float factor) {
    typename From::Storage stored;
    std::memcpy(&stored, from, fromSize);
    typename To::Storage converted = To::encode(From::decode(stored) * factor);
    std::memcpy(to, &converted, toSize);
  }

  /// `row`: its number in the result.
  static void moveRow(const uint8_t *from, uint8_t *to, int64_t count, Factors factors = {}, int64_t row = 0) {
    if (factors.data) {
      for (int64_t i = 0; i < count; ++i)
        moveScaled(from + i * fromSize, to + i * toSize, factors.at(row, i));
    } else if constexpr (std::is_same_v<From, To>) {
      std::memcpy(to, from, count * fromSize);
    } else {
      for (int64_t i = 0; i < count; ++i)
        moveElement(from + i * fromSize, to + i * toSize);
    }
  }

  /// Moves rows `firstRow` to `lastRow` of the transposed source, which has `columns` rows; `to` begins with the first
  /// of them. Works in square blocks, so that several elements of each cache line are used in both matrices.
  static void moveTransposed(Source from, Destination to, int64_t firstRow, int64_t lastRow, int64_t columns,
                             Factors factors) {
    constexpr int64_t side = 32;
    for (int64_t firstColumn = 0; firstColumn < columns; firstColumn += side) {
      int64_t lastColumn = std::min(firstColumn + side, columns);
      for (int64_t row = firstRow; row < lastRow; ++row)
        for (int64_t column = firstColumn; column < lastColumn; ++column) {
          const uint8_t *element = from.data + (column * from.pitch + row) * fromSize;
          uint8_t *target = to.data + ((row - firstRow) * to.pitch + column) * toSize;
          if (factors.data)
            moveScaled(element, target, factors.at(row, column));
          else
            moveElement(element, target);
        }
    }
  }
};
} // namespace

template <typename Function> static void withMover(DType from, DType to, Function function) {
  auto withFrom = [&]<typename From>(From) {
    switch (to) {
    case DType::F32:
      return function(Mover<From, F32>());
    case DType::F16:
      return function(Mover<From, F16>());
    case DType::BF16:
      return function(Mover<From, BF16>());
    case DType::I32:
      llvm_unreachable("packedSize refuses integers");
    }
  };
  switch (from) {
  case DType::F32:
    return withFrom(F32());
  case DType::F16:
    return withFrom(F16());
  case DType::BF16:
    return withFrom(BF16());
  case DType::I32:
    llvm_unreachable("packWeight refuses integers");
  }
}

/// Converts between types: `count` elements from element `first` of `from`.
static void convert(DType fromType, const uint8_t *from, int64_t first, int64_t count, DType toType, void *to) {
  withMover(fromType, toType,
            [&](auto mover) { mover.moveRow(from + first * mover.fromSize, static_cast<uint8_t *>(to), count); });
}

static std::vector<float> floatsOf(const TensorView &tensor, int64_t first, int64_t count) {
  std::vector<float> values(count);
  convert(tensor.dtype, tensor.bytes.data(), first, count, DType::F32, values.data());
  return values;
}

//===----------------------------------------------------------------------===//
// Sums
//===----------------------------------------------------------------------===//

/// Rounds to a type and back.
static void roundTo(DType dtype, MutableArrayRef<float> values) {
  auto *bytes = reinterpret_cast<uint8_t *>(values.data());
  std::vector<float> rounded(values.size());
  auto count = static_cast<int64_t>(values.size());
  convert(DType::F32, bytes, 0, count, dtype, rounded.data());
  convert(dtype, reinterpret_cast<const uint8_t *>(rounded.data()), 0, count, DType::F32, bytes);
}

/// Columns `first` to `last` of a matrix: line i is its row i, or, if the matrix is stored transposed, column first +
/// i.
struct Columns {
  const TensorView &matrix;
  int64_t first, last;

  int64_t lines() const { return matrix.isTransposed ? last - first : matrix.shape[0]; }
  std::vector<float> line(int64_t i) const {
    int64_t rows = matrix.shape[0], columns = matrix.shape[1];
    return matrix.isTransposed ? floatsOf(matrix, (first + i) * rows, rows)
                               : floatsOf(matrix, i * columns + first, last - first);
  }
};

/// Adds to `sums` what the recipe adds up in these columns of its matrix: elements times those of the vector (`add`),
/// or rounded elements (`sum`). Each column is added up from its first row, however the matrix is stored.
static void addColumns(const WeightRecipe &recipe, ArrayRef<TensorView> tensors, Columns columns, double *sums) {
  bool isTransposed = columns.matrix.isTransposed;
  std::vector<float> factors(columns.matrix.shape[0], 1.0F);
  if (recipe.add || recipe.scale)
    factors = floatsOf(tensors[1], 0, columns.matrix.shape[0]);
  for (int64_t line = 0; line < columns.lines(); ++line) {
    std::vector<float> elements = columns.line(line);
    auto rowOf = [&](size_t i) { return isTransposed ? static_cast<int64_t>(i) : line; };
    if (recipe.sum) {
      for (auto [i, element] : llvm::enumerate(elements))
        element *= factors[rowOf(i)];
      roundTo(*recipe.sum, elements);
    }
    for (auto [i, element] : llvm::enumerate(elements)) {
      double factor = recipe.add ? factors[rowOf(i)] : 1;
      sums[columns.first + (isTransposed ? line : static_cast<int64_t>(i))] += factor * element;
    }
  }
}

/// The vector that `add` or `sum` gives, before it is rounded to f32.
static std::vector<double> summed(const WeightRecipe &recipe, ArrayRef<TensorView> tensors) {
  int64_t columns = recipe.sourceShape.back();
  std::vector<double> sums(columns);
  if (recipe.add)
    llvm::copy(floatsOf(tensors[0], 0, columns), sums.begin());
  const TensorView &matrix = recipe.add ? tensors[2] : tensors[0];
  constexpr int64_t grain = 128;
  parallelFor((columns + grain - 1) / grain, [&](size_t range) {
    int64_t first = static_cast<int64_t>(range) * grain;
    addColumns(recipe, tensors, {matrix, first, std::min(first + grain, columns)}, sums.data());
  });
  return sums;
}

//===----------------------------------------------------------------------===//
// Packing
//===----------------------------------------------------------------------===//

/// The row of the source that destination row `row` holds, where rows are counted over all dimensions but the last; -1
/// for a row of padding.
static int64_t sourceRow(int64_t row, ArrayRef<int64_t> sourceShape, ArrayRef<int64_t> shape) {
  int64_t result = 0, stride = 1;
  for (size_t dimension = shape.size() - 1; dimension-- > 0;) {
    int64_t index = row % shape[dimension];
    row /= shape[dimension];
    if (index >= sourceShape[dimension])
      return -1;
    result += index * stride;
    stride *= sourceShape[dimension];
  }
  return result;
}

/// Calls `body(firstRow, lastRow)` in parallel on ranges that cover the rows from `begin` to `end`. A range has about
/// 64 K elements.
static void forRowRanges(int64_t begin, int64_t end, int64_t columns, function_ref<void(int64_t, int64_t)> body) {
  int64_t grain = llvm::alignTo((1 << 16) / std::max<int64_t>(columns, 1) + 1, 64);
  parallelFor((end - begin + grain - 1) / grain, [&](size_t range) {
    int64_t first = begin + static_cast<int64_t>(range) * grain;
    body(first, std::min(first + grain, end));
  });
}

namespace {
/// What the last two steps of a recipe start from.
struct Unpacked {
  const uint8_t *data;
  bool isTransposed; ///< as TensorView::isTransposed
  Factors factors;
};
} // namespace

/// Packs rows by the last two steps of a recipe that has been checked and has elements. The mover converts from the
/// source's type. `destination` begins with row `begin`.
template <typename Mover>
static void packRows(Mover mover, const WeightRecipe &recipe, Unpacked source, uint8_t *destination, int64_t begin,
                     int64_t end) {
  TensorShape unpadded = recipe.unpaddedShape();
  TensorShape shape = recipe.shape;
  if (shape.empty())
    unpadded = shape = {1};
  int64_t columns = shape.back(), filled = unpadded.back();
  bool transposes = recipe.transpose != source.isTransposed; // two transpositions are none
  forRowRanges(begin, end, columns, [&](int64_t first, int64_t last) {
    auto target = [&](int64_t row) { return destination + (row - begin) * columns * mover.toSize; };
    if (transposes)
      mover.moveTransposed({source.data, unpadded[0]}, {target(first), columns}, first, std::min(last, unpadded[0]),
                           filled, source.factors);
    for (int64_t row = first; row < last; ++row) {
      int64_t from = sourceRow(row, unpadded, shape);
      if (from >= 0 && !transposes)
        mover.moveRow(source.data + from * filled * mover.fromSize, target(row), filled, source.factors, from);
      int64_t padStart = from >= 0 ? filled : 0;
      std::memset(target(row) + padStart * mover.toSize, 0, (columns - padStart) * mover.toSize);
    }
  });
}

Expected<PackedRows> packedRows(const WeightRecipe &recipe) {
  Expected<int64_t> size = packedSize(recipe);
  if (!size)
    return size.takeError();
  if (*size == 0)
    return PackedRows(); // if one extent is 0, the others may be of any size
  int64_t columns = recipe.shape.empty() ? 1 : recipe.shape.back(), rowBytes = columns * dtypeSize(recipe.dtype);
  return PackedRows{*size / rowBytes, rowBytes};
}

/// Copies a rank's share of a tensor, whose dimension `dim` (the first or the last one) is split. Keeps the order of
/// the elements.
static TensorView shareOf(const TensorView &whole, unsigned dim, const RankSplit &split, int64_t rank) {
  TensorView share = whole;
  share.shape[dim] = split.room(whole.shape[dim]);
  int64_t elementBytes = dtypeSize(whole.dtype);
  auto bytes = std::make_shared<std::vector<uint8_t>>(*elementCount(share.shape) * elementBytes);
  // In memory: lines, each with all of the split dimension; `each` is what one index of it has in a line.
  bool isInner = whole.shape.size() == 1 || (dim == 1) != whole.isTransposed;
  int64_t each = elementBytes * (isInner ? 1 : whole.shape[1 - dim]);
  int64_t line = whole.shape[dim] * each, ownLine = share.shape[dim] * each;
  for (int64_t i = 0, lines = isInner ? static_cast<int64_t>(whole.bytes.size()) / line : 1; i < lines; ++i)
    for (RankSplit::Run run : split.runs(whole.shape[dim], rank))
      std::memcpy(bytes->data() + i * ownLine + run.to * each, whole.bytes.data() + i * line + run.from * each,
                  run.count * each);
  share.bytes = *bytes;
  share.owner = std::move(bytes);
  return share;
}

Expected<RecipeTensors> openTensors(const WeightRecipe &recipe, const WeightSource &weights, int64_t rank) {
  if (std::string problem = recipe.problem(); !problem.empty())
    return makeError("weight '" + recipe.source + "': " + problem);
  RecipeTensors views;
  for (const WeightRecipe::Tensor &tensor : recipe.tensors()) {
    Expected<TensorView> view = weights.tensor(tensor.name, tensor.shape);
    if (!view)
      return view.takeError();
    views.push_back(tensor.splitDim ? shareOf(*view, *tensor.splitDim, *recipe.split, rank) : std::move(*view));
  }
  return views;
}

/// Error: views that are not those of the recipe's tensors.
static Error checkTensors(const WeightRecipe &recipe, ArrayRef<TensorView> views) {
  auto tensors = recipe.tensors();
  assert(views.size() == tensors.size() && "a view for each tensor");
  for (const auto &[tensor, view] : llvm::zip(tensors, views)) {
    if (view.shape != tensor.shape || !isFloat(view.dtype))
      return makeError("weight '" + tensor.name + "': expected a float tensor of shape " + shapeString(tensor.shape) +
                       ", got " + dtypeName(view.dtype) + shapeString(view.shape));
    assert(static_cast<int64_t>(view.bytes.size()) == *elementCount(view.shape) * dtypeSize(view.dtype) &&
           "a view of another size than its shape");
  }
  return Error::success();
}

Error packWeightRows(const WeightRecipe &whole, ArrayRef<TensorView> tensors, int64_t firstRow, int64_t lastRow,
                     MutableArrayRef<uint8_t> destination) {
  auto fail = [&](const Twine &message) { return makeError("weight '" + whole.source + "': " + message); };
  Expected<PackedRows> rows = packedRows(whole);
  if (!rows)
    return rows.takeError();
  WeightRecipe recipe = whole.afterSplit();
  if (Error error = checkTensors(recipe, tensors))
    return error;
  assert(0 <= firstRow && firstRow <= lastRow && lastRow <= rows->count && "rows that the weight has not");
  int64_t size = (lastRow - firstRow) * rows->bytes;
  if (static_cast<int64_t>(destination.size()) != size)
    return fail("expected a destination of " + Twine(size) + " bytes, got " + Twine(destination.size()));
  if (size == 0)
    return Error::success();
  DType dtype = tensors[0].dtype;
  Unpacked source{tensors[0].bytes.data(), tensors[0].isTransposed, {}};
  std::vector<float> sums, factors;
  if (recipe.add || recipe.sum) {
    llvm::append_range(sums, summed(recipe, tensors));
    dtype = DType::F32;
    source = {reinterpret_cast<const uint8_t *>(sums.data()), /*isTransposed=*/false, {}};
  } else if (recipe.scale) {
    factors = floatsOf(tensors[1], 0, recipe.sourceShape[0]);
    source.factors = {factors.data(), /*areOfColumns=*/recipe.transpose};
  }
  withMover(dtype, recipe.dtype,
            [&](auto mover) { packRows(mover, recipe, source, destination.data(), firstRow, lastRow); });
  return Error::success();
}

Error packWeight(const WeightRecipe &recipe, ArrayRef<TensorView> tensors, MutableArrayRef<uint8_t> destination) {
  Expected<PackedRows> rows = packedRows(recipe);
  if (!rows)
    return rows.takeError();
  return packWeightRows(recipe, tensors, 0, rows->count, destination);
}

} // namespace kiln
