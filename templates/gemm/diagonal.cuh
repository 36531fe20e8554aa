//===- diagonal.cuh - products of which those above the diagonal are not wanted --===//
#pragma once

#include "device/base.cuh"

namespace kiln {

/// Config::kFillAboveDiagonal: outputs with col > row are not computed, the epilogue gets 0 for them; false where
/// Config has none. Called with 0: an int fits the first of the two better, if a Config has it.
template <class Config>
KILN_DEVICE constexpr auto fillsAboveDiagonal(int) -> decltype(bool(Config::kFillAboveDiagonal)) {
  return Config::kFillAboveDiagonal;
}
template <class Config> KILN_DEVICE constexpr bool fillsAboveDiagonal(long) { return false; }

} // namespace kiln
