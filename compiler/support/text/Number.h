//===- Number.h - numbers in messages ---------------------------------------===//
#pragma once

#include "support/ADT.h"

#include <charconv>

namespace kiln {

/// The shortest text that reads back as the same number: 1.5, 1e-05, nan. (formatv shows two decimals.)
inline std::string numberText(double value) {
  char buffer[32];
  return std::string(buffer, std::to_chars(std::begin(buffer), std::end(buffer), value).ptr);
}

} // namespace kiln
