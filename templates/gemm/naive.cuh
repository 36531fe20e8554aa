//===- naive.cuh - matrix product, one thread an output -----------------------===//
//
// out[rows, cols] = A[rows, depth] · B, the lowest rung of the ladder: no shared memory, every thread reads a row of A
// and a column of B from global memory. It takes the same Input, Epilogue and extents as gemm/simt_tiled.cuh, which
// documents them, so that the two can be exchanged and compared.
//
// Launch: grid (ceildiv(cols, 32), ceildiv(rows, kThreads / 32), batch), block kThreads. A warp holds 32
// neighbouring columns of one row: weight[depth, cols] is read coalesced, weight[cols, depth] is not.
//
// Registers: about 32. Shared memory: none. A normalised input costs a thread two more passes over its row.
//
// Config:
//   kCols, kDepth        extents; 0 = given at run time
//   kWeightTransposed    weight is [cols, depth]
//   kThreads             a multiple of 32
//   kFillAboveDiagonal   optional, see gemm/diagonal.cuh
//
//===----------------------------------------------------------------------===//
#pragma once

#include "device/base.cuh"
#include "device/index.cuh"
#include "device/numeric.cuh"
#include "device/shared.cuh"
#include "device/vec.cuh"
#include "gemm/diagonal.cuh"
#include "norm/row_statistics.cuh"
#include "shape.cuh"

namespace kiln {

template <class Config, class Input, class W> constexpr SharedBytes kNaiveMatmulShared = {0, 0};

/// The kernel's body; extents that Config fixes are passed as these constants.
template <class Config, class Input, class W, class Epilogue>
KILN_DEVICE void naiveMatmul(int rows, int cols, int depth, const Input &input, const W *weight,
                             const Epilogue &epilogue) {
  static_assert(Config::kThreads % kWarpSize == 0, "a warp holds 32 columns of a row");
  const int row = int(blockIndexY()) * (Config::kThreads / int(kWarpSize)) + int(warpIndex());
  const int col = int(blockIndexX()) * int(kWarpSize) + int(laneIndex());
  if (row >= rows || col >= cols)
    return;

  RowStatistics statistics{};
  if constexpr (Input::kNormalizes)
    statistics = threadRowStatistics(input, row, depth);
  float product = 0;
  const bool isWanted = !fillsAboveDiagonal<Config>(0) || col <= row;
  for (int k = 0; isWanted && k < depth; ++k) {
    Vec<float, 1> a = input.template load<1>(row, k);
    if constexpr (Input::kNormalizes)
      a = input.normalize(a, statistics, input.template parameters<1>(k));
    product += a[0] * toFloat(weight[Config::kWeightTransposed ? i64(col) * depth + k : i64(k) * cols + col]);
  }
  epilogue(Vec<float, 1>{product}, row, col);
}

/// With kCols and kDepth fixed by Config.
template <class Config, class Input, class W, class Epilogue>
KILN_DEVICE void naiveMatmul(int rows, const Input &input, const W *weight, const Epilogue &epilogue) {
  static_assert(Config::kCols != 0 && Config::kDepth != 0, "run-time extents are arguments");
  naiveMatmul<Config>(rows, Config::kCols, Config::kDepth, input, weight, epilogue);
}

} // namespace kiln
