//===- WeightRecipe.h - how a weight is made from a checkpoint's tensors --===//
//
// `weight %w_fc : bf16[3072,768] = "h.0.mlp.c_fc.weight"[768,3072] -> transpose`: a recipe is the part after the type.
// The compiler writes recipes into the IR and the plan; the reference executor and the runtime follow them. docs/ir.md
// has the grammar.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "support/ADT.h"
#include "support/model/DType.h"
#include "support/model/RankSplit.h"

namespace kiln {

/// The steps are taken in this order: split, scale, add, sum, transpose, pad. Numbers are f32 until the result, and
/// only it, is rounded to `dtype`; sums are f64.
struct WeightRecipe {
  /// A vector times a matrix, of two tensors of the checkpoint: [rows] · [rows, cols].
  struct Product {
    std::string vector, matrix;
    SmallVector<int64_t, 2> matrixShape;

    bool operator==(const Product &) const = default;
  };
  /// A tensor that the recipe reads: its name in the checkpoint, and its shape there.
  struct Tensor {
    StringRef name;
    SmallVector<int64_t, 2> shape;
    std::optional<unsigned> splitDim = std::nullopt; ///< the dimension of which each rank reads its share only
  };

  std::string source;                  ///< the tensor's name in a Hugging Face checkpoint, without `transformer.`
  SmallVector<int64_t, 2> sourceShape; ///< the shape of the checkpoint's tensor
  bool transpose = false;              ///< for rank 2 only: [in,out] to [out,in]
  bool pad = false;                    ///< pads with zeros up to `shape` in every dimension, after the transposition
  SmallVector<int64_t, 2> shape;       ///< the packed shape
  DType dtype = DType::F32;            ///< the packed element type
  /// Of a module of several ranks: each reads its share of the source, and of the other tensors what goes with it.
  std::optional<RankSplit> split = std::nullopt;
  /// For rank 2 only: row i is multiplied by element i of this tensor.
  std::optional<std::string> scale = std::nullopt;
  /// For rank 1 only: is added to the source.
  std::optional<Product> add = std::nullopt;
  /// For rank 2 only: elements are rounded to this type, then each column is added up.
  std::optional<DType> sum = std::nullopt;

  /// Whether anything but a split and a conversion to `dtype` becomes of the source.
  bool hasSteps() const { return scale || add || sum || transpose || pad; }

  /// Describes why the steps do not fit the shapes: the message of an error. Empty: they fit.
  std::string problem() const;

  /// The recipe that every rank follows after the split, with its shares as tensors. problem() must be empty.
  WeightRecipe afterSplit() const;

  /// The shape after all steps but the padding. problem() must be empty.
  SmallVector<int64_t, 2> unpaddedShape() const;

  /// The tensors that the recipe reads: the source first; then those of `scale`, or the vector and the matrix of `add`.
  SmallVector<Tensor, 3> tensors() const;

  bool operator==(const WeightRecipe &) const = default;
};

/// The bytes of a packed weight. Error: the recipe's shapes do not fit together, or its type is not a float.
Expected<int64_t> packedSize(const WeightRecipe &recipe);

/// The text `[768,3072]`; `[]` for a scalar.
std::string shapeString(ArrayRef<int64_t> shape);

/// The number of elements; nothing if a dimension is negative or the product overflows int64.
std::optional<int64_t> elementCount(ArrayRef<int64_t> shape);

} // namespace kiln
