//===- places.cuh - the input of @verify ----------------------------------------===//
#pragma once

#include "device/math.cuh"
#include "sample/state.cuh"

namespace kiln {

/// The first position of a row's pass. A finished row takes part, too, and its kTokens positions must be in its cache.
template <class Config> KILN_DEVICE i32 passPosition(i32 position) {
  return min(position, Config::kContext - Config::kTokens);
}

} // namespace kiln
