//===- PackWeight.h - carrying out weight recipes ---------------------------===//
#pragma once

#include "runtime/WeightSource.h"

namespace kiln {

/// Writes a checkpoint tensor as the recipe says: transposed, converted to the recipe's type (rounded to
/// nearest even), and padded with zeros, row-major. Runs on all cores. Error: as of packedSize; a tensor that
/// has not the recipe's source shape; a destination of another size.
Error packWeight(const WeightRecipe &recipe, const TensorView &source, MutableArrayRef<uint8_t> destination);

} // namespace kiln
