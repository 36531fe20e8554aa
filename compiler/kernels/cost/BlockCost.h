//===- BlockCost.h - the time of equal blocks -----------------------------===//
#pragma once

#include "kernels/targets/Target.h"

namespace kiln {

/// Seconds for `blocks` equal blocks: the slowest multiprocessor's share of the arithmetic, against memory and L2.
struct BlockCost {
  double blocks = 1;
  double flopsPerBlock = 0;
  double efficiency = 1; ///< share of the arithmetic rate that the inner loop reaches
  double l2BytesPerBlock = 0;
  double memoryBytes = 0; ///< of the whole launch
  int64_t threads = 256;
  int64_t sharedBytes = 0;   ///< of a block
  int64_t bytesInFlight = 0; ///< of a block's loads; 0: enough
};
double estimateSeconds(const BlockCost &cost, const Target &target);

} // namespace kiln
