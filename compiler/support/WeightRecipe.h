//===- WeightRecipe.h - how a weight is made from a checkpoint's tensor ---===//
//
// `weight %w_fc : bf16[3072,768] = "h.0.mlp.c_fc.weight"[768,3072] -> transpose`: a recipe is the part after the type.
// The compiler writes recipes into the IR and the plan; the reference executor and the runtime follow them.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "support/ADT.h"
#include "support/DType.h"

namespace kiln {

struct WeightRecipe {
  std::string source;                  ///< the tensor's name in a Hugging Face checkpoint, without `transformer.`
  SmallVector<int64_t, 2> sourceShape; ///< the shape of the checkpoint's tensor
  bool transpose = false;              ///< for rank 2 only: [in,out] to [out,in]
  bool pad = false;                    ///< pads with zeros up to `shape` in every dimension, after the transposition
  SmallVector<int64_t, 2> shape;       ///< the packed shape
  DType dtype = DType::F32;            ///< the packed element type

  /// The shape after transposition, before padding.
  SmallVector<int64_t, 2> unpaddedShape() const;

  bool operator==(const WeightRecipe &) const = default;
};

/// The bytes of a packed weight. Error: the recipe's shapes do not fit together, or its type is not a float.
Expected<int64_t> packedSize(const WeightRecipe &recipe);

/// The text `[768,3072]`; `[]` for a scalar.
std::string shapeString(ArrayRef<int64_t> shape);

/// The number of elements; nothing if a dimension is negative or the product overflows int64.
std::optional<int64_t> elementCount(ArrayRef<int64_t> shape);

} // namespace kiln
