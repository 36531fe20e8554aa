//===- flash_tile.cuh - which keys a block's queries see --------------------------------===//
//
// Query t of row b stands at position(b) + t. With Config::kCausal it sees the keys up to its position, else all; with
// Config::kWindow only the last so many of these.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "attention/window.cuh"
#include "device/base.cuh"
#include "device/index.cuh"

namespace kiln {

/// A block's tile of kQueries queries of head h of row b, and the keys that it sees, which come in tiles of kKeys.
template <class Config, int kQueries = Config::kTileQueries, int kKeys = Config::kTileKeys> struct FlashTile {
  static constexpr int kWindow = flashWindow<Config>(0);

  int queries; // of the row
  int b, h;
  int firstQuery; // of the tile
  int position;   // of query 0
  int keyEnd;     // first key that no query of the tile sees

  /// The keys that the tile's query `q` sees: [firstVisible, visibleEnd).
  KILN_DEVICE int visibleEnd(int q) const {
    return Config::kCausal ? min(keyEnd, position + firstQuery + q + 1) : keyEnd;
  }
  KILN_DEVICE int firstVisible(int q) const {
    return kWindow > 0 ? max(0, position + firstQuery + q + 1 - kWindow) : 0;
  }
  /// Another tile of the same head, of so many keys.
  KILN_DEVICE FlashTile at(int index, int keys) const {
    const int first = index * kQueries, end = min(first + kQueries, queries);
    return {queries, b, h, first, position, Config::kCausal ? min(keys, position + end) : keys};
  }
  /// The first tile of keys that one of its queries sees begins there.
  KILN_DEVICE int firstKey() const { return firstVisible(0) / kKeys * kKeys; }
};

/// A tile of head h of row b.
template <class Tile, class Position>
KILN_DEVICE Tile flashTileOf(int b, int h, int index, int queries, int keys, const Position &position) {
  return Tile{queries, b, h, 0, position(b), 0}.at(index, keys);
}

/// The tile of this block of a grid (heads, batch, ceildiv(queries, kTileQueries)): those with the most keys first.
template <class Config, class Position>
KILN_DEVICE FlashTile<Config> flashTile(int queries, int keys, const Position &position) {
  return flashTileOf<FlashTile<Config>>(int(blockIndexY()), int(blockIndexX()), int(gridBlocksZ() - 1 - blockIndexZ()),
                                        queries, keys, position);
}

} // namespace kiln
