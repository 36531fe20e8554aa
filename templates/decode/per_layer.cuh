//===- per_layer.cuh - a kernel's parameter that is one thing for each layer ---------------===//
#pragma once

#include "device/base.cuh"

namespace kiln {

/// An address or a tensor map of each layer. A kernel takes it as `const __grid_constant__ PerLayer<…>`.
template <class Item, int kLayers> struct PerLayer {
  Item of[kLayers];

  KILN_DEVICE const Item &operator[](int layer) const { return of[layer]; }
};

} // namespace kiln
