//===- head_view.cuh - addresses of the heads of an attention operand -----===//
//
// Queries, keys and values come as slices of a packed [B, T, 3C] projection, as split heads [B, NH, T, HS],
// or as a cache [B, NH, capacity, HS]. A view gives all of them one form: strides in elements for batch row,
// head and token; the head's elements are contiguous. The attention templates read 4 elements (flash) or 16
// bytes (split) at a time: data and strides are multiples of that.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "device/base.cuh"

namespace kiln {

template <class T> struct HeadView {
  const T *data;
  i64 batchStride, headStride, tokenStride;

  /// First element of a token of a head.
  KILN_DEVICE const T *at(int b, int h, int t) const {
    return data + b * batchStride + h * headStride + t * tokenStride;
  }
};

} // namespace kiln
