//===- mma_tiled_split.cuh - matrix product in tensor cores, parts of the depth apart --===//
//
// The product of mma_tiled.cuh for few rows, which leave too few tiles for all multiprocessors. kSplits blocks share a
// tile, each with a part of the steps, and write their sums to memory; the last block to arrive adds all of them,
// always in the order of the parts, so that the result is the same from run to run.
//
// Launch: as there, kSplits in z. Memory: parts, kTileM · kTileN · kSplits floats of each tile; one arrival counter per
// tile, zero before and after. Shared memory: 128 bytes more.
//
// Config: as there, and kSplits, blocks of a tile.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "arrivals.cuh"
#include "gemm/mma_tiled.cuh"

namespace kiln {

template <class Config, class T> struct MmaTiledSplitStorage {
  MmaTiledStorage<Config, T> tile;
  bool isLast;
};

template <class Config, class T>
constexpr SharedBytes kMmaTiledSplitShared = {0, sizeof(MmaTiledSplitStorage<Config, T>)};

/// The body of a kernel whose blocks share tiles.
template <class Config, class T, class Epilogue>
KILN_DEVICE void mmaTiledSplit(int rows, const T *input, const T *weight, float *parts, u32 *arrivals,
                               const Epilogue &epilogue) {
  allowDependents();
  const TilePlace origin = tileOfBlock();
  auto &shared = dynamicShared<MmaTiledSplitStorage<Config, T>>();
  MmaTiled<Config, T, Config::kSplits> block(shared.tile, input, weight, origin, rows);
  block.accumulate();

  constexpr i64 kTile = i64(Config::kTileM) * Config::kTileN;
  const i64 tiles = i64(gridBlocksX()) * gridBlocksY(), tile = i64(origin.m) * gridBlocksX() + origin.n;
  parts += tile * kTile;
  block.write(parts + block.split() * tiles * kTile);
  if (!arrivesLast(arrivals + tile, Config::kSplits, shared.isLast))
    return;
  block.addParts(parts, tiles * kTile);
  block.finish(epilogue, origin, rows);
}

} // namespace kiln
