#include "runtime/weights/PackWeight.h"

#include "support/Diagnostic.h"
#include "support/Parallel.h"

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

  static void moveRow(const uint8_t *from, uint8_t *to, int64_t count) {
    if constexpr (std::is_same_v<From, To>) {
      std::memcpy(to, from, count * fromSize);
    } else {
      for (int64_t i = 0; i < count; ++i)
        moveElement(from + i * fromSize, to + i * toSize);
    }
  }

  /// Moves rows `firstRow` to `lastRow` of the transposed source, which has `columns` rows; `to` begins with the first
  /// of them. Works in square blocks, so that several elements of each cache line are used in both matrices.
  static void moveTransposed(Source from, Destination to, int64_t firstRow, int64_t lastRow, int64_t columns) {
    constexpr int64_t side = 32;
    for (int64_t firstColumn = 0; firstColumn < columns; firstColumn += side) {
      int64_t lastColumn = std::min(firstColumn + side, columns);
      for (int64_t row = firstRow; row < lastRow; ++row)
        for (int64_t column = firstColumn; column < lastColumn; ++column)
          moveElement(from.data + (column * from.pitch + row) * fromSize,
                      to.data + ((row - firstRow) * to.pitch + column) * toSize);
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

/// Packs rows by a recipe that has been checked and has elements. The mover converts from the source's type.
/// `destination` begins with row `begin`.
template <typename Mover>
static void packRows(Mover mover, const WeightRecipe &recipe, const uint8_t *source, uint8_t *destination,
                     int64_t begin, int64_t end) {
  TensorShape unpadded = recipe.unpaddedShape();
  TensorShape shape = recipe.shape;
  if (shape.empty())
    unpadded = shape = {1};
  int64_t columns = shape.back(), filled = unpadded.back();
  forRowRanges(begin, end, columns, [&](int64_t first, int64_t last) {
    auto target = [&](int64_t row) { return destination + (row - begin) * columns * mover.toSize; };
    if (recipe.transpose)
      mover.moveTransposed({source, unpadded[0]}, {target(first), columns}, first, std::min(last, unpadded[0]), filled);
    for (int64_t row = first; row < last; ++row) {
      int64_t from = sourceRow(row, unpadded, shape);
      if (from >= 0 && !recipe.transpose)
        mover.moveRow(source + from * filled * mover.fromSize, target(row), filled);
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

Error packWeightRows(const WeightRecipe &recipe, const TensorView &source, int64_t firstRow, int64_t lastRow,
                     MutableArrayRef<uint8_t> destination) {
  auto fail = [&](const Twine &message) { return makeError("weight '" + recipe.source + "': " + message); };
  Expected<PackedRows> rows = packedRows(recipe);
  if (!rows)
    return rows.takeError();
  if (source.shape != recipe.sourceShape || !isFloat(source.dtype))
    return fail("expected a float tensor of shape " + shapeString(recipe.sourceShape) + ", got " +
                dtypeName(source.dtype) + shapeString(source.shape));
  assert(static_cast<int64_t>(source.bytes.size()) == *elementCount(source.shape) * dtypeSize(source.dtype) &&
         "a view of another size than its shape");
  assert(0 <= firstRow && firstRow <= lastRow && lastRow <= rows->count && "rows that the weight has not");
  int64_t size = (lastRow - firstRow) * rows->bytes;
  if (static_cast<int64_t>(destination.size()) != size)
    return fail("expected a destination of " + Twine(size) + " bytes, got " + Twine(destination.size()));
  if (size > 0)
    withMover(source.dtype, recipe.dtype,
              [&](auto mover) { packRows(mover, recipe, source.bytes.data(), destination.data(), firstRow, lastRow); });
  return Error::success();
}

Error packWeight(const WeightRecipe &recipe, const TensorView &source, MutableArrayRef<uint8_t> destination) {
  Expected<PackedRows> rows = packedRows(recipe);
  if (!rows)
    return rows.takeError();
  return packWeightRows(recipe, source, 0, rows->count, destination);
}

} // namespace kiln
