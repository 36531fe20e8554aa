//===- tile_order.cuh - the order in which blocks take the tiles of a product ---------===//
#pragma once

#include "device/base.cuh"
#include "device/index.cuh"

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

/// The tiles of a block of a persistent grid, one after the other: every gridBlocksX()-th of all tiles in groups. The
/// same for the blocks of a cluster, kBlocks, that have one tile together.
template <int kBlocks = 1, int kGroup = 16> struct GroupedTiles {
  static constexpr int kGroupTiles = kGroup; // along M
  static constexpr bool kMayShareRows = true;
  int tilesM, tilesN;

  KILN_DEVICE int tileOf(int i) const { return int(blockIndexX()) / kBlocks + i * (int(gridBlocksX()) / kBlocks); }
  KILN_DEVICE bool has(int i) const { return tileOf(i) < tilesM * tilesN; }
  KILN_DEVICE TilePlace place(int i) const { return groupedTile<kGroup>(tileOf(i), tilesM, tilesN); }
};

/// The same, but a block stays with its rows: it has one of `parts` parts of a stripe, the tiles with the same m, and
/// walks along N; with more stripes than blocks it has several whole ones. All blocks begin at the start of a part, so
/// that they share columns in L2. Parts are whole stretches, kStretches of which a stripe has whatever the number of
/// blocks and stripes; a stretch has a tile or more. Blocks may be left without tiles.
template <int kStretches> struct StripeTiles {
  static constexpr bool kMayShareRows = false; // scores of a row are merged when those of its tile have been counted
  int tilesM, tilesN;
  int parts = max(1, min(int(gridBlocksX()) / tilesM, kStretches));
  int part = int(blockIndexX()) / tilesM % parts;
  int first = startOf(part * kStretches / parts), count = startOf((part + 1) * kStretches / parts) - first;

  /// The first tile of a stretch, and the stretch that has tile n.
  KILN_DEVICE int startOf(int stretch) const { return stretch * tilesN / kStretches; }
  KILN_DEVICE int stretchOf(int n) const { return ((n + 1) * kStretches - 1) / tilesN; }

  /// The number of the block's stripe, or part of one, that has tile i.
  KILN_DEVICE int stripeOf(int i) const { return int(blockIndexX()) + i / count * int(gridBlocksX()); }
  KILN_DEVICE bool has(int i) const { return stripeOf(i) < tilesM * parts; }
  KILN_DEVICE TilePlace place(int i) const { return {stripeOf(i) % tilesM, first + i % count}; }
};

} // namespace kiln
