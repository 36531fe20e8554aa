//===- WarpsLaunch.h - how kernels of gemv/mma_warps.cuh are launched ---------------===//
#pragma once

#include "kernels/KernelTest.h"

namespace kiln {

inline Dim3 warpsGrid(const Variant &of, int rows) {
  return {ceilDivide(of["kCols"], 8 * of["kTilesN"] * of["kWarpsN"] * of["kTurns"]), ceilDivide(rows, of["kRows"])};
}

inline int warpsThreads(const Variant &of) { return 32 * (of["kWarpsN"] * of["kDepthWarps"] + of["kRows"] / 4); }

/// As the template lays it out.
inline int warpsSharedBytes(const Variant &of) {
  const int steps = static_cast<int>(ceilDivide(of["kDepth"], 64)), rows = of["kRows"], cols = 8 * of["kTilesN"];
  const int ownChains = of["kRanges"] * of["kChains"] / of["kDepthWarps"];
  int most = 0;
  for (int range = 0; range < of["kRanges"]; ++range) {
    const int ofRange = (range + 1) * steps / of["kRanges"] - range * steps / of["kRanges"];
    most = std::max(most, static_cast<int>(ceilDivide(ofRange, of["kChains"])));
  }
  const int sequence = static_cast<int>(ceilDivide(most, of["kUnroll"])) * of["kTurns"];
  const bool sharesRows = of["kDepthWarps"] == 1;
  const int lines = ownChains * of["kUnroll"] * (cols + (sharesRows ? 0 : rows));
  const int stages = of["kWarpsN"] * of["kDepthWarps"] * std::min(of["kBuffers"], sequence) * lines * 128;
  const int blockCols = cols * of["kWarpsN"], stride = blockCols + (blockCols % 16 == 0 ? 8 : 0);
  const int sumsOfWarp = ownChains % of["kChains"] == 0 ? ownChains / of["kChains"] : ownChains;
  const int sums = sharesRows ? 16 : 4 * of["kDepthWarps"] * sumsOfWarp * rows * stride;
  const int bytes = stages + 128 * (sharesRows ? steps * rows : 1) + sums + 16 * rows;
  return (bytes + 127) / 128 * 128;
}

} // namespace kiln
