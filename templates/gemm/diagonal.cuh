//===- diagonal.cuh - products without the outputs above the diagonal -----===//
#pragma once

#include "device/base.cuh"

namespace kiln {

/// Config::kFillAboveDiagonal: outputs with col > row are not wanted, and tiles of nothing else are not computed. The
/// epilogue gets 0 there, or the product where a tile has other outputs, too: it must mask them. False where Config has
/// none. It is called with 0: overload resolution prefers the first of the two, which takes an int, if Config has the
/// setting.
template <class Config>
KILN_DEVICE constexpr auto fillsAboveDiagonal(int) -> decltype(bool(Config::kFillAboveDiagonal)) {
  return Config::kFillAboveDiagonal;
}
template <class Config> KILN_DEVICE constexpr bool fillsAboveDiagonal(long) { return false; }

} // namespace kiln
