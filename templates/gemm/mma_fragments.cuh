//===- mma_fragments.cuh - matrix product, tensor cores fed from global memory ----===//
//
// out[rows, cols] = A[rows, depth] · B, a rung of the ladder between register tiles and gemm/mma_tiled.cuh: products of
// 16 × 8 × 8 in tensor cores by mma.sync, factors rounded to tf32 (which holds bf16 and fp16 as they are), sums in
// float; sm_80 and up. There is no shared memory: each lane loads its elements of the fragments itself, element by
// element, so that B may lie either way and extents need not divide anything. It takes the same Input, Epilogue and
// extents as gemm/simt_tiled.cuh, but no input that is normalised on the way.
//
// Launch: grid (ceildiv(cols, 32), ceildiv(rows, 16 · kWarps), batch), block 32 · kWarps. A warp has 16 rows and 32
// columns.
//
// Registers: 16 sums, 12 operands, and addresses: 40 to 64. Shared memory: none. Rows and columns past the end repeat
// the last, and are dropped before the epilogue; depths past the end are zeros.
//
// Config:
//   kCols, kDepth        extents, where they are no arguments
//   kWeightTransposed    weight is [cols, depth]
//   kWarps               warps of a block
//
//===----------------------------------------------------------------------===//
#pragma once

#include "device/base.cuh"
#include "device/index.cuh"
#include "device/numeric.cuh"
#include "device/shared.cuh"
#include "device/tensor_core.cuh"
#include "device/vec.cuh"
#include "shape.cuh"

namespace kiln {

template <class Config, class Input, class W> constexpr SharedBytes kMmaFragmentsShared = {0, 0};

/// The kernel's body.
template <class Config, class Input, class W, class Epilogue>
KILN_DEVICE void mmaFragments(int rows, int cols, int depth, const Input &input, const W *weight,
                              const Epilogue &epilogue) {
  static_assert(!Input::kNormalizes, "the input is as it lies in memory");
  constexpr int kColTiles = 4; // of 8 columns
  const int group = int(laneIndex()) / 4, place = int(laneIndex()) % 4;
  const int firstRow = (int(blockIndexY()) * Config::kWarps + int(warpIndex())) * 16 + group;
  const int firstCol = int(blockIndexX()) * 8 * kColTiles;
  const auto left = [&](int row, int k) {
    return bitCast<u32>(k < depth ? input.template load<1>(min(row, rows - 1), k)[0] : 0.0f);
  };
  const auto right = [&](int col, int k) {
    const int c = min(col, cols - 1);
    return bitCast<u32>(k < depth ? toFloat(weight[Config::kWeightTransposed ? i64(c) * depth + k : i64(k) * cols + c])
                                  : 0.0f);
  };

  MmaSums sums[kColTiles] = {};
  for (int k = place; k - place < depth; k += 8) {
    MmaA a{{left(firstRow, k), left(firstRow + 8, k), left(firstRow, k + 4), left(firstRow + 8, k + 4)}};
    roundFactors<float>(a.words);
#pragma unroll
    for (int n = 0; n < kColTiles; n += 2) {
      const int col = firstCol + 8 * n + group;
      u32 words[4] = {right(col, k), right(col, k + 4), right(col + 8, k), right(col + 8, k + 4)};
      roundFactors<float>(words);
      multiplyAdd<float>(sums[n], a, MmaB{{words[0], words[1]}});
      multiplyAdd<float>(sums[n + 1], a, MmaB{{words[2], words[3]}});
    }
  }
#pragma unroll
  for (int n = 0; n < kColTiles; ++n)
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int row = firstRow + i / 2 * 8, col = firstCol + 8 * n + 2 * place + i % 2;
      if (row < rows && col < cols)
        epilogue(Vec<float, 1>{sums[n].values[i]}, row, col);
    }
}

/// With kCols and kDepth fixed by Config.
template <class Config, class Input, class W, class Epilogue>
KILN_DEVICE void mmaFragments(int rows, const Input &input, const W *weight, const Epilogue &epilogue) {
  static_assert(Config::kCols != 0 && Config::kDepth != 0, "run-time extents are arguments");
  mmaFragments<Config>(rows, Config::kCols, Config::kDepth, input, weight, epilogue);
}

} // namespace kiln
