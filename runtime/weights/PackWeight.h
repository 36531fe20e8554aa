//===- PackWeight.h - carrying out weight recipes ---------------------------===//
#pragma once

#include "runtime/weights/WeightSource.h"

namespace kiln {

/// A packed weight as rows: all dimensions but the last counted together. None of no bytes, where it has no elements.
struct PackedRows {
  int64_t count = 0, bytes = 0; ///< `bytes` of each
};
/// Error: as of packedSize.
Expected<PackedRows> packedRows(const WeightRecipe &recipe);

/// Writes a checkpoint tensor as the recipe says: transposed, converted to the recipe's type (rounded to nearest even),
/// and padded with zeros, row-major. Runs on all cores. Error: as of packedSize; a tensor that has not the recipe's
/// source shape; a destination of another size.
Error packWeight(const WeightRecipe &recipe, const TensorView &source, MutableArrayRef<uint8_t> destination);

/// The same of the packed weight's rows `firstRow` to `lastRow` alone.
Error packWeightRows(const WeightRecipe &recipe, const TensorView &source, int64_t firstRow, int64_t lastRow,
                     MutableArrayRef<uint8_t> destination);

} // namespace kiln
