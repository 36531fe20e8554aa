//===- mma_tiled_score.cuh - log-probabilities of tokens by mma.sync ----------------------===//
//
// As gemm/wgmma_score.cuh, with the product of mma_tiled.cuh, for GPUs and vocabularies that wgmma does not have.
//
// Method: a warp writes the scores of its rows for its columns to memory, a part for each of the kWarpsN warps along
// the columns of each tile (gemm/score_parts.cuh). The last block to arrive of those that have the same rows merges all
// their parts.
//
// Launch and Config: as in mma_tiled.cuh. Shared memory: 128 bytes more.
//
// Memory: parts, of kWarpsN · ceildiv(kCols, kTileN) scores a row. arrivals: a counter for each kTileM rows, zero
// before and after.
//
// Epilogue: as in norm/score_rows.cuh.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "arrivals.cuh"
#include "gemm/mma_tiled.cuh"
#include "gemm/score_parts.cuh"

namespace kiln {

template <class Config, class T> struct MmaTiledScoreStorage {
  MmaTiledStorage<Config, T> tile;
  bool isLast;
};

template <class Config, class T>
constexpr SharedBytes kMmaTiledScoreShared = {0, sizeof(MmaTiledScoreStorage<Config, T>)};

/// The kernel's body.
template <class Config, class T, class Epilogue>
KILN_DEVICE void mmaTiledScore(int rows, const T *input, const T *weight, RowScore *scores, u32 *arrivals,
                               const Epilogue &epilogue) {
  using Shape = MmaTiledShape<Config, T>;
  constexpr int kTilesN = ceilDiv(Config::kCols, Shape::kN), kColumns = Shape::kWarpN / 4; // of a thread
  allowDependents();
  const TilePlace origin = tileOfBlock();
  auto &shared = dynamicShared<MmaTiledScoreStorage<Config, T>>();
  MmaTiled<Config, T> tile(shared.tile, input, weight, origin, rows);
  tile.accumulate();

  const ScoreParts<Config::kCols> parts = {scores, rows, kTilesN * Config::kWarpsN};
  const int firstRow = origin.m * Shape::kM, part = (origin.n * Shape::kN + tile.warpN()) / Shape::kWarpN;
  const int col = origin.n * Shape::kN + tile.warpN() + int(laneIndex()) % 4 * 8;
#pragma unroll
  for (int i = 0; i < 2 * Shape::kInstructionsM; ++i) {
    const int row = firstRow + tile.warpM() + int(laneIndex()) / 4 + i * 8,
              target = epilogue.target(min(row, rows - 1));
    RowScore score = RowScore::none();
    parts.template add<Shape::kColsAreExact, kColumns>(
        score, col, target, [&](int column) { return tile.sums[i / 2][column / 2].values[i % 2 * 2 + column % 2]; });
    parts.write(part, row, score);
  }
  if (!arrivesLast(arrivals + origin.m, kTilesN, shared.isLast))
    return;
  for (int group = int(warpIndex()); group < Shape::kM / 16; group += Shape::kThreads / int(kWarpSize))
    parts.template merge<1>(firstRow + group * 16, 16, epilogue);
}

} // namespace kiln
