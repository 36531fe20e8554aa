//===- wgmma_flash_shape.cuh - constants and shared memory of wgmma_flash.cuh -------===//
#pragma once

#include "attention/tensor_flash.cuh"
#include "device/barrier.cuh"
#include "device/base.cuh"
#include "device/index.cuh"
#include "device/shared.cuh"

namespace kiln {

/// Constants that follow from a Config.
template <class Config> struct WgmmaFlashShape {
  static constexpr int kHeadSize = Config::kHeadSize, kQueries = Config::kTileQueries, kKeys = Config::kTileKeys;
  static constexpr int kWays = Config::kWays, kWayKeys = kKeys / kWays, kWayThreads = 2 * kQueries;
  static constexpr int kThreads = kWays * kWayThreads, kStages = Config::kStages; // threads that multiply
  static constexpr int kCopyWarps = Config::kRoles - 1, kBlockThreads = kThreads + kCopyWarps * int(kWarpSize);
  static constexpr int kWarps = kThreads / int(kWarpSize), kWarpgroups = kThreads / int(kWarpgroupSize);
  /// Whether syncThreads() is a barrier of one warpgroup, the one that multiplies.
  static constexpr bool kSyncThreadsMeets = kWarpgroups == 1 && kCopyWarps == 0;
  static constexpr int kWarpgroupQueries = 64, kWarpQueries = 16;
  static constexpr int kDepthSteps = kHeadSize / 16, kKeySteps = kWayKeys / 16; // steps of the two products
  static constexpr int kTilesOfKeys = kWayKeys / 8,
                       kTilesOfDims = kHeadSize / 8; // columns of the two products, in tiles of 8
  static constexpr u32 kQueryBytes = HeadTile<kHeadSize>::bytes(kQueries);
  static constexpr u32 kKeyBytes = HeadTile<kHeadSize>::bytes(kKeys); // of one stage; the values take as many

  static_assert(kHeadSize % 16 == 0 && kHeadSize <= 128, "kHeadSize is a multiple of 16 up to 128");
  static_assert(kQueries % kWarpgroupQueries == 0, "a warpgroup has 64 queries");
  static_assert((kWays == 1 || kWays == 2) && (kWayKeys == 64 || kWayKeys == 128), "a way's products are whole");
  static_assert(kCopyWarps == 0 || (kCopyWarps == 1 && kWays == 1), "ways meet at barriers of the whole block");
  static_assert(kStages >= 2, "one tile is multiplied while another arrives");
};

/// What the ways but the first one hand over: the sums of their threads, their rows' references and sums of weights.
template <class Shape> struct WgmmaFlashWays {
  float out[Shape::kWays - 1][Shape::kTilesOfDims * 4][Shape::kWayThreads];
  float largest[Shape::kWays - 1][2][Shape::kWayThreads], sums[Shape::kWays - 1][2][Shape::kWayThreads];
};

/// The ring of tiles of keys or of values: a tile has arrived in a stage, or all warps have read it.
template <int kStages> struct WgmmaFlashBarriers {
  SharedBarrier full[kStages], empty[kStages];
};

template <class Config> struct WgmmaFlashStorage {
  using Shape = WgmmaFlashShape<Config>;
  alignas(kWarpgroupTileAlignment) u8 queries[Shape::kQueryBytes];
  alignas(kWarpgroupTileAlignment) u8 keys[Shape::kStages][Shape::kKeyBytes];
  alignas(kWarpgroupTileAlignment) u8 values[Shape::kStages][Shape::kKeyBytes];
  WgmmaFlashBarriers<Shape::kStages> ofKeys, ofValues;
  SharedBarrier queriesFull;
  SharedBarrier cleared; // the values past the last key

  /// In place of the keys and values, when nobody reads these any more.
  KILN_DEVICE WgmmaFlashWays<Shape> &ways() {
    static_assert(sizeof(WgmmaFlashWays<Shape>) <= sizeof(keys) + sizeof(values));
    return *reinterpret_cast<WgmmaFlashWays<Shape> *>(keys);
  }
};

template <class Config>
constexpr SharedBytes kWgmmaFlashShared = {0, max(i64(sizeof(WgmmaFlashStorage<Config>)), i64(Config::kShared))};

} // namespace kiln
