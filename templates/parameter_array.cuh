//===- parameter_array.cuh - a kernel's parameter that is one thing for each layer or rank ---===//
#pragma once

#include "device/base.cuh"

namespace kiln {

/// Addresses or tensor maps, as a kernel takes them: `const __grid_constant__ PerLayer<…>`.
template <class Item, int kCount> struct ParameterArray {
  Item of[kCount];

  KILN_DEVICE const Item &operator[](int index) const { return of[index]; }
};

/// One of each layer.
template <class Item, int kLayers> using PerLayer = ParameterArray<Item, kLayers>;
/// One of each rank: of each GPU that has a share of the model.
template <class Item, int kRanks> using PerRank = ParameterArray<Item, kRanks>;

} // namespace kiln
