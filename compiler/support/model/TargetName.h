//===- TargetName.h - what the name of a target says, and which have clusters -----===//
#pragma once

#include "support/ADT.h"

namespace kiln {

/// Whether a target is a virtual architecture, as nvcc calls it: compute_80. Its code is PTX, which drivers compile for
/// all GPUs from this compute capability on.
inline bool isPtxTarget(StringRef target) { return target.starts_with("compute_"); }

/// The compute capability of a target: 90 for sm_90a, 80 for compute_80; 0 if the name is of another form.
inline int computeCapability(StringRef target) {
  int value = 0;
  if (target.consume_front("sm_") || target.consume_front("compute_"))
    target.take_while(llvm::isDigit).getAsInteger(10, value);
  return value;
}

/// The first GPUs on which a kernel may start before the one in front of it has ended, and waits for its results itself
/// (templates/device/grid.cuh). Code for older ones does not wait.
constexpr int earlyStartCapability = 90;
/// The first GPUs with clusters of blocks, by their compute capability.
constexpr int clusterCapability = 90;
/// The most blocks of a cluster that each of them runs (CUDA C++ Programming Guide, "Thread Block Clusters").
constexpr int64_t maxClusterBlocks = 8;

} // namespace kiln
