//===- tile_order.cuh - the order in which blocks take the tiles of a product ---------===//
#pragma once

#include "device/base.cuh"

namespace kiln {

/// The position of a tile of the output, in tiles.
struct TilePlace {
  int m, n;
};

/// The place of tile number `tile` of tilesM × tilesN: groups of kGroup tiles along M, within them first along M.
/// Blocks that run at a time have neighbouring numbers, and so they share operands in L2.
template <int kGroup> KILN_DEVICE TilePlace groupedTile(int tile, int tilesM, int tilesN) {
  const int first = tile / (kGroup * tilesN) * kGroup, inGroup = tile % (kGroup * tilesN);
  const int rows = min(kGroup, tilesM - first);
  return {first + inGroup % rows, inGroup / rows};
}

} // namespace kiln
