//===- register_tiled.cuh - matrix product, tiles in registers alone ------------===//
//
// out[rows, cols] = A[rows, depth] · weight[cols, depth]ᵀ, a rung of the ladder between gemm/naive.cuh and
// gemm/simt_tiled.cuh: a thread computes 8 × 8 neighbouring outputs, so that each element it reads from global memory
// is used eight times, but there is no shared memory: neighbouring threads meet in L1. It takes the same Input,
// Epilogue and extents as gemm/simt_tiled.cuh, but no input that is normalised on the way.
//
// Launch: grid (ceildiv(cols, 128), ceildiv(rows, 128), batch), block 256: 16 × 16 threads.
//
// Registers: 64 sums, 9 · kVec operands, and 16 addresses: 110 to 160. Shared memory: none. Rows and columns past the
// end repeat the last, and are dropped before the epilogue.
//
// Config:
//   kCols, kDepth           extents; kCols may be 0, given at run time (then stores are scalar)
//   kWeightTransposed       true
//   kVec                    elements of an access, 1 or 4; a divisor of kDepth
//   kFillAboveDiagonal      optional, see gemm/diagonal.cuh
//
//===----------------------------------------------------------------------===//
#pragma once

#include "device/base.cuh"
#include "device/index.cuh"
#include "device/shared.cuh"
#include "device/vec.cuh"
#include "gemm/diagonal.cuh"
#include "shape.cuh"

namespace kiln {

template <class Config, class Input, class W> constexpr SharedBytes kRegisterTiledShared = {0, 0};

/// The kernel's body.
template <class Config, class Input, class W, class Epilogue>
KILN_DEVICE void registerTiled(int rows, int cols, int depth, const Input &input, const W *weight,
                               const Epilogue &epilogue) {
  constexpr int kOwn = 8, kTile = 16 * kOwn, V = Config::kVec, kOutputVec = widestVector(Config::kCols, V);
  static_assert(Config::kWeightTransposed && !Input::kNormalizes, "both operands lie along the depth");
  static_assert(Config::kDepth % V == 0 && Config::kDepth > 0, "kVec divides the depth");
  const int row = int(blockIndexY()) * kTile + int(threadIndex()) / 16 * kOwn;
  const int col = int(blockIndexX()) * kTile + int(threadIndex()) % 16 * kOwn;
  float sums[kOwn][kOwn] = {};
  // A thread, like the whole block, has nothing to compute if its first column is greater than its last row.
  const bool isWanted = !fillsAboveDiagonal<Config>(0) || col <= row + kOwn - 1;
  for (int k = 0; isWanted && k < depth; k += V) {
    Vec<float, V> a[kOwn];
#pragma unroll
    for (int i = 0; i < kOwn; ++i)
      a[i] = input.template load<V>(min(row + i, rows - 1), k);
#pragma unroll
    for (int j = 0; j < kOwn; ++j) {
      const Vec<float, V> b = load<V>(weight + i64(min(col + j, cols - 1)) * depth + k);
#pragma unroll
      for (int i = 0; i < kOwn; ++i)
#pragma unroll
        for (int v = 0; v < V; ++v)
          sums[i][j] += a[i][v] * b[v];
    }
  }
#pragma unroll
  for (int i = 0; i < kOwn; ++i)
#pragma unroll
    for (int j = 0; j < kOwn; j += kOutputVec) {
      Vec<float, kOutputVec> product;
#pragma unroll
      for (int v = 0; v < kOutputVec; ++v)
        product[v] = sums[i][j + v];
      if (row + i < rows && col + j < cols)
        epilogue(product, row + i, col + j);
    }
}

} // namespace kiln
