//===- LaunchLimits.h - what a launch may have on any GPU --------------------===//
#pragma once

#include "support/ADT.h"

#include <array>

namespace kiln {

/// Blocks of a grid in x, y and z.
constexpr std::array<int64_t, 3> mostGridBlocks = {INT32_MAX, 65535, 65535};
/// Threads of a block.
constexpr int64_t mostBlockThreads = 1024;
/// Bytes that a kernel has in constant memory.
constexpr int64_t mostConstantBytes = 64 * 1024;

} // namespace kiln
