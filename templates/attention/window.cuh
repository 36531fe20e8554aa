//===- window.cuh - attention to the last keys only ------------------------------===//
#pragma once

#include "device/base.cuh"

namespace kiln {

/// Config::kWindow, the number of keys that a query sees; 0, which is all, where Config has none. Called with 0: an int
/// fits the first of the two better, if a Config has it.
template <class Config> KILN_DEVICE constexpr auto flashWindow(int) -> decltype(int(Config::kWindow)) {
  return Config::kWindow;
}
template <class Config> KILN_DEVICE constexpr int flashWindow(long) { return 0; }

} // namespace kiln
