//===- wgmma_flash_shape.cuh - constants and shared memory of wgmma_flash.cuh -------===//
#pragma once

#include "attention/tensor_flash.cuh"
#include "device/barrier.cuh"
#include "device/base.cuh"
#include "device/grid.cuh"
#include "device/index.cuh"
#include "device/shared.cuh"

namespace kiln {

/// Constants that follow from a Config.
template <class Config> struct WgmmaFlashShape {
  static constexpr int kHeadSize = Config::kHeadSize, kQueries = Config::kTileQueries, kKeys = Config::kTileKeys;
  static constexpr int kRangeKeys = Config::kRangeKeys, kRangeSteps = kRangeKeys / kKeys;
  /// Blocks of a cluster, which share two tiles of queries if there are two.
  static constexpr int kWays = Config::kWays;
  static constexpr int kThreads = 2 * kQueries, kStages = Config::kStages; // threads that multiply
  static constexpr int kCopyWarps = Config::kRoles - 1, kBlockThreads = kThreads + kCopyWarps * int(kWarpSize);
  static constexpr int kWarps = kThreads / int(kWarpSize), kWarpgroups = kThreads / int(kWarpgroupSize);
  /// Whether syncThreads() is a barrier of one warpgroup, the one that multiplies.
  static constexpr bool kSyncThreadsMeets = kWarpgroups == 1 && kCopyWarps == 0;
  static constexpr int kWarpgroupQueries = 64, kWarpQueries = 16;
  static constexpr int kDepthSteps = kHeadSize / 16, kKeySteps = kKeys / 16;   // steps of the two products
  static constexpr int kTilesOfKeys = kKeys / 8, kTilesOfDims = kHeadSize / 8; // their columns, in tiles of 8
  static constexpr u32 kQueryBytes = HeadTile<kHeadSize>::bytes(kQueries);
  static constexpr u32 kKeyBytes = HeadTile<kHeadSize>::bytes(kKeys); // of one stage; the values take as many

  static_assert(kHeadSize % 16 == 0 && kHeadSize <= 128, "kHeadSize is a multiple of 16 up to 128");
  static_assert(kQueries % kWarpgroupQueries == 0, "a warpgroup has 64 queries");
  static_assert(kKeys == 64 || kKeys == 128, "a step's products are whole");
  static_assert(kRangeKeys % kKeys == 0 && (kRangeKeys > 0) == (Config::kRanges > 1), "a step is in one range");
  static_assert(kWays == 1 || (kWays == 2 && Config::kRanges == 2 && kQueries == kWarpgroupQueries),
                "two blocks have two tiles of 64 queries, and a range each of the later one");
  static_assert(Config::kRanges == 1 || flashWindow<Config>(0) == 0, "ranges begin at the first key of a sequence");
  static_assert(Config::kRoles == 1 || Config::kRoles == 2, "warps that multiply copy, too, or another one does");
  static_assert(kStages >= 2, "one tile is multiplied while another arrives");
};

/// What the threads of a tile of queries have of a range of keys: sums of weighted values; references of their two
/// rows, and sums of weights.
template <class Shape> struct WgmmaFlashRange {
  float out[Shape::kTilesOfDims][Shape::kThreads][4];
  float rows[Shape::kThreads][4];
};

/// A range that this block has added up before, or that the other one hands over.
template <class Shape, bool kExists> struct WgmmaFlashOther {
  WgmmaFlashRange<Shape> range;
  SharedBarrier handedOver;
};
template <class Shape> struct WgmmaFlashOther<Shape, false> {};

/// The ring of tiles of keys or of values: a tile has arrived in a stage, or all warps have read it.
template <int kStages> struct WgmmaFlashBarriers {
  SharedBarrier full[kStages], empty[kStages];
};

template <class Config> struct WgmmaFlashStorage {
  using Shape = WgmmaFlashShape<Config>;
  alignas(kWarpgroupTileAlignment) u8 queries[Shape::kWays][Shape::kQueryBytes];
  alignas(kWarpgroupTileAlignment) u8 keys[Shape::kStages][Shape::kKeyBytes];
  alignas(kWarpgroupTileAlignment) u8 values[Shape::kStages][Shape::kKeyBytes];
  WgmmaFlashOther<Shape, (Config::kRanges > 1)> other;
  WgmmaFlashBarriers<Shape::kStages> ofKeys, ofValues;
  SharedBarrier queriesFull[Shape::kWays];
  SharedBarrier cleared; // the values past the last key
};

template <class Config>
constexpr SharedBytes kWgmmaFlashShared = {0, max(i64(sizeof(WgmmaFlashStorage<Config>)), i64(Config::kShared))};

/// Keys that a block attends to for a tile of queries: [firstKey, keyEnd).
template <class Config> struct WgmmaFlashTask {
  FlashTile<Config> tile;
  int firstKey, keyEnd;

  KILN_DEVICE int steps() const { return ceilDiv(keyEnd - firstKey, Config::kTileKeys); }
};

/// What a block does, one after the other: with one way, all keys of its tile. With two, tiles from both ends meet in a
/// cluster, since all blocks have as many steps then: the first block has the first range of the later tile; the second
/// one has the other range of the later tile, and then the earlier tile. Where there is nothing to do, a step is done
/// for nothing: ptxas would expect warps to part at a condition, and use no uniform registers behind it.
template <class Config> struct WgmmaFlashTasks {
  static constexpr bool kHasTwo = Config::kWays > 1;
  WgmmaFlashTask<Config> tasks[Config::kWays];

  KILN_DEVICE const WgmmaFlashTask<Config> &operator[](int i) const { return tasks[i]; }
  KILN_DEVICE int steps() const { return tasks[0].steps() + (kHasTwo ? tasks[Config::kWays - 1].steps() : 0); }
  /// The first key of a step of the block.
  KILN_DEVICE int key(int step) const {
    const int end = tasks[0].steps();
    return kHasTwo && step >= end ? (step - end) * Config::kTileKeys : tasks[0].firstKey + step * Config::kTileKeys;
  }

  /// Of the block of that rank in its cluster.
  template <class Position>
  KILN_DEVICE static WgmmaFlashTasks of(int queries, int keys, const Position &position, int rank) {
    if constexpr (Config::kWays == 1) {
      const FlashTile<Config> tile = flashTile<Config>(queries, keys, position);
      return {{{tile, tile.firstKey(), tile.keyEnd}}};
    } else {
      const int index = int(blockIndexZ()), tiles = ceilDiv(queries, Config::kTileQueries);
      const auto later = flashTileOf<FlashTile<Config>>(int(blockIndexY()), int(blockIndexX()) / Config::kWays,
                                                        tiles - 1 - index, queries, keys, position);
      const FlashTile<Config> earlier = later.at(index, keys);
      const bool hasRange = later.keyEnd > Config::kRangeKeys, hasEarlier = earlier.firstQuery < later.firstQuery;
      WgmmaFlashTasks result = {{{later, rank > 0 && hasRange ? Config::kRangeKeys : 0,
                                  rank == 0 ? min(later.keyEnd, Config::kRangeKeys) : (hasRange ? later.keyEnd : 1)},
                                 {earlier, 0, rank == 0 ? 0 : (hasEarlier ? earlier.keyEnd : 1)}}};
      if (rank > 0 && !hasRange)
        result.tasks[0].tile.keyEnd = 0; // no query sees a key
      if (!hasEarlier)
        result.tasks[1].tile.queries = 0; // no query exists
      return result;
    }
  }
};

} // namespace kiln
