//===- PackSupport.h - what tests of packed weights share -----------------===//
#pragma once

#include "TestSupport.h"

#include "runtime/weights/PackWeight.h"

#include <cstring>

namespace kiln {

/// The values as a tensor of that type has them.
inline std::vector<uint8_t> store(DType dtype, ArrayRef<float> values) {
  std::vector<uint8_t> bytes;
  for (float value : values) {
    uint32_t bits = __builtin_bit_cast(uint32_t, value);
    if (dtype != DType::F32)
      bits = dtype == DType::F16 ? toF16(value) : toBF16(value);
    for (int64_t i = 0; i < dtypeSize(dtype); ++i)
      bytes.push_back(static_cast<uint8_t>(bits >> 8 * i));
  }
  return bytes;
}

/// The elements of the transposed matrix.
inline std::vector<float> transposed(ArrayRef<int64_t> shape, ArrayRef<float> values) {
  std::vector<float> result;
  for (int64_t column = 0; column < shape[1]; ++column)
    for (int64_t row = 0; row < shape[0]; ++row)
      result.push_back(values[row * shape[1] + column]);
  return result;
}

inline std::vector<uint8_t> packViews(const WeightRecipe &recipe, ArrayRef<TensorView> views) {
  std::vector<uint8_t> packed(unwrap(packedSize(recipe)), 0xCC);
  expectSuccess(packWeight(recipe, views, packed));
  return packed;
}

/// Tensors of a checkpoint, of any float type each.
struct Tensors {
  SmallVector<std::vector<uint8_t>, 3> bytes, turned;
  SmallVector<TensorView, 3> views, turnedViews; ///< `turned`: with matrices stored transposed

  void add(DType dtype, TensorShape shape, ArrayRef<float> values) {
    bool isMatrix = shape.size() == 2;
    bytes.push_back(store(dtype, values));
    turned.push_back(isMatrix ? store(dtype, transposed(shape, values)) : bytes.back());
    views.push_back({dtype, shape, bytes.back(), nullptr});
    turnedViews.push_back({dtype, shape, turned.back(), nullptr, isMatrix});
  }
};

} // namespace kiln
