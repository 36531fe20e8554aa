//===- TargetName.h - what the name of a target says, and which have clusters -----===//
#pragma once

#include "support/ADT.h"

namespace kiln {

/// The compute capability of a target: 90 for sm_90a; 0 if the name is of another form.
inline int computeCapability(StringRef target) {
  int value = 0;
  if (target.consume_front("sm_"))
    target.take_while(llvm::isDigit).getAsInteger(10, value);
  return value;
}

/// The first GPUs with clusters of blocks, by their compute capability.
constexpr int clusterCapability = 90;
/// The most blocks of a cluster that each of them runs (CUDA C++ Programming Guide, "Thread Block Clusters").
constexpr int64_t maxClusterBlocks = 8;

} // namespace kiln
