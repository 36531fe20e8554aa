//===- PackWeight.h - carrying out weight recipes ---------------------------===//
#pragma once

#include "runtime/weights/WeightSource.h"

namespace kiln {

/// A packed weight as rows: all dimensions except the last counted together. A weight without elements has no rows, of
/// no bytes.
struct PackedRows {
  int64_t count = 0, bytes = 0; ///< `bytes` of each
};
/// Error: as of packedSize.
Expected<PackedRows> packedRows(const WeightRecipe &recipe);

/// Writes a checkpoint tensor as the recipe says: transposed, converted to the recipe's type (rounded to nearest even),
/// and padded with zeros, row-major. Uses all cores. Error: as of packedSize; a tensor whose shape is not the recipe's
/// source shape; a destination of the wrong size.
Error packWeight(const WeightRecipe &recipe, const TensorView &source, MutableArrayRef<uint8_t> destination);

/// Writes only rows `firstRow` to `lastRow` of the packed weight.
Error packWeightRows(const WeightRecipe &recipe, const TensorView &source, int64_t firstRow, int64_t lastRow,
                     MutableArrayRef<uint8_t> destination);

} // namespace kiln
