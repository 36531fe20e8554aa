//===- DepthCut.h - in which order tensor cores add up the products of few rows ---------===//
#pragma once

#include "kernels/families/KernelFamily.h"

namespace kiln {

/// The depth in so many ranges, each of so many chains, as templates/gemv/depth_cut.cuh says.
struct DepthCut {
  int64_t ranges = 1, chains = 1;

  int64_t allChains() const { return ranges * chains; }
  /// Steps of the longest chain, of so many in all.
  int64_t mostSteps(int64_t steps) const;
  /// As KernelFamily::order gives it.
  AttributeMap order() const { return {{"chains", chains}, {"ranges", ranges}}; }
};

/// Steps of the depth of the op's matmul, of 128 bytes.
int64_t stepsOfDepth(const Op &op);
/// Its columns, with those that are padding.
int64_t colsOfProduct(const Op &op);

/// The cut for any number of rows of a product of few tokens per sequence: with the ranges that are best for
/// gemv_wgmma, beside which it is defined. Bits of rows depend on it; so it follows from the extents of the weight and
/// the GPU, and from nothing else.
DepthCut cutOfFewTokens(const Op &op, const Target &target);

} // namespace kiln
