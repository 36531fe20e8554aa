//===- block_reduction.cuh - matrix product, one block an output --------------===//
//
// out[rows, cols] = A[rows, depth] · B, a rung of the ladder above gemm/naive.cuh: the depth is shared between the
// threads of a block, whose sums are added in two stages, within warps and between them. It takes the same Input,
// Epilogue and extents as gemm/simt_tiled.cuh, which documents them, but no input that is normalised on the way.
//
// Launch: grid (cols, rows, batch), block kThreads. Neighbouring threads take neighbouring depths.
//
// Registers: about 32. Shared memory: 128 bytes. Threads beyond the depth only take part in the sum.
//
// Config:
//   kWeightTransposed    weight is [cols, depth]: then neighbouring threads read neighbouring elements
//   kThreads             a multiple of 32
//
//===----------------------------------------------------------------------===//
#pragma once

#include "device/base.cuh"
#include "device/block.cuh"
#include "device/index.cuh"
#include "device/numeric.cuh"
#include "device/shared.cuh"
#include "device/vec.cuh"

namespace kiln {

template <class Config, class Input, class W>
constexpr SharedBytes kBlockReductionShared = {sizeof(BlockScratch<float>), 0};

/// The kernel's body.
template <class Config, class Input, class W, class Epilogue>
KILN_DEVICE void blockReduction(int rows, int cols, int depth, const Input &input, const W *weight,
                                const Epilogue &epilogue) {
  static_assert(Config::kThreads % kWarpSize == 0, "a block is whole warps");
  static_assert(!Input::kNormalizes, "the input is as it lies in memory");
  const int row = int(blockIndexY()), col = int(blockIndexX());
  float share = 0;
  for (int k = int(threadIndex()); k < depth; k += Config::kThreads)
    share += input.template load<1>(row, k)[0] *
             toFloat(weight[Config::kWeightTransposed ? i64(col) * depth + k : i64(k) * cols + col]);
  const float product = blockSum(share, sharedStorage<BlockScratch<float>>());
  if (threadIndex() == 0)
    epilogue(Vec<float, 1>{product}, row, col);
}

} // namespace kiln
