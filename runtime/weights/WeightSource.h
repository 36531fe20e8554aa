//===- WeightSource.h - the interface of sources of weights ---------------===//
//
// Names are those of a Hugging Face GPT-2 checkpoint without the `transformer.` prefix:
// `h.0.mlp.c_fc.weight`. Matrices have the shape [in, out].
//
//===----------------------------------------------------------------------===//
#pragma once

#include "support/ADT.h"
#include "support/model/DType.h"
#include "support/model/WeightRecipe.h"

namespace kiln {

using TensorShape = SmallVector<int64_t, 2>;

/// A tensor's elements, row-major and little-endian, at any alignment. The bytes live as long as the view or
/// a copy of it does.
struct TensorView {
  DType dtype = DType::F32;
  TensorShape shape;
  ArrayRef<uint8_t> bytes;
  std::shared_ptr<const void> owner;
  bool isTransposed = false; ///< the bytes are those of the transposed matrix: element [i,j] is number j * shape[0] + i
};

/// Weights by name.
class WeightSource {
public:
  virtual ~WeightSource() = default;

  /// Whether there is a tensor of that name.
  virtual bool has(StringRef name) const = 0;

  /// A tensor of floats. Error: there is none of that name, its shape is another, or its dtype is not F32,
  /// F16 or BF16; the message names the file, the tensor, and what was expected.
  virtual Expected<TensorView> tensor(StringRef name, ArrayRef<int64_t> expectedShape) const = 0;
};

} // namespace kiln
