//===- window.cuh - optional settings of attention: windows, few queries ------------===//
#pragma once

#include "device/base.cuh"

namespace kiln {

/// Config::kWindow, the number of keys that a query sees; 0, which means all, where Config does not have it. It is
/// called with 0: overload resolution prefers the first of the two, which takes an int, if Config has the setting.
template <class Config> KILN_DEVICE constexpr auto flashWindow(int) -> decltype(int(Config::kWindow)) {
  return Config::kWindow;
}
template <class Config> KILN_DEVICE constexpr int flashWindow(long) { return 0; }

/// The same for Config::kQueries, the number of queries of a sequence; 1 where Config does not have it.
template <class Config> KILN_DEVICE constexpr auto splitQueries(int) -> decltype(int(Config::kQueries)) {
  return Config::kQueries;
}
template <class Config> KILN_DEVICE constexpr int splitQueries(long) { return 1; }

/// The same for Config::kOwnKeys, whether kernels of the call write all keys; false where Config does not have it.
template <class Config> KILN_DEVICE constexpr auto splitOwnKeys(int) -> decltype(bool(Config::kOwnKeys)) {
  return Config::kOwnKeys;
}
template <class Config> KILN_DEVICE constexpr bool splitOwnKeys(long) { return false; }

} // namespace kiln
