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

/// The tensors that a recipe reads, in the order of WeightRecipe::tensors(): of a recipe with a split, the shares of a
/// rank. Only these are read from the source.
using RecipeTensors = SmallVector<TensorView, 3>;
/// Error: as of WeightSource::tensor, or of WeightRecipe::problem.
Expected<RecipeTensors> openTensors(const WeightRecipe &recipe, const WeightSource &weights, int64_t rank = 0);

/// Writes the weight that the recipe makes of its tensors (of a rank's shares), row-major: scaled, with the product
/// added, summed, transposed, converted to the recipe's type (rounded to nearest even), and padded with zeros. Uses all
/// cores. Error: as of packedSize; tensors of other shapes than the recipe's; a destination of the wrong size.
Error packWeight(const WeightRecipe &recipe, ArrayRef<TensorView> tensors, MutableArrayRef<uint8_t> destination);

/// Writes only rows `firstRow` to `lastRow` of the packed weight.
Error packWeightRows(const WeightRecipe &recipe, ArrayRef<TensorView> tensors, int64_t firstRow, int64_t lastRow,
                     MutableArrayRef<uint8_t> destination);

} // namespace kiln
