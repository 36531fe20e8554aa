//===- wgmma_flash.cuh - causal attention in the tensor cores of Hopper -------------===//
//
// The attention of mma_flash.cuh, for many queries per head (prefill), elements of bf16 or f16; sm_90a only.
//
// Method: FlashAttention-3 (Shah et al., 2024) without its producer warp: a block keeps a tile of queries, 64 a
// warpgroup, and walks over the tiles of keys. A warpgroup starts the product of its queries with a tile of keys and,
// right behind it, that of the weights of the tile before with its values; while the tensor cores are at the second, it
// turns the scores of the first into weights. Queries, scores, weights and output stay in registers; the tensor cores
// read keys and values from shared memory in the layout of global memory, so that nothing is transposed. While one
// warpgroup leaves the tensor cores idle, the others of the multiprocessor use them.
//
// Ways: with few blocks, the steps of the longest one are what takes the time. So kWays warpgroups may share a tile of
// queries, each an equal part of every tile of keys, with a softmax of its own. In the end the first one merges them
// (as flash decoding does), in order.
//
// Positions and visibility are those of mma_flash.cuh. Tiles that no query of the block sees are skipped, those that no
// query of a warpgroup sees by that warpgroup. Sums and products are in a fixed order.
//
// Launch: grid (heads, batch, ceildiv(queries, kTileQueries)), block 2 · kTileQueries · kWays; the blocks with the most
// keys first.
//
// Shared memory, all of it dynamic: 128 · ceildiv(kHeadSize, 64) · (kTileQueries + 2 · kStages · kTileKeys) bytes, in
// the layout that tensor_flash.cuh documents, or kShared bytes, if these are more. kStages tiles of keys and of values
// are stored or in flight; values arrive one step after their keys.
//
// Config:
//   kHeadSize       a multiple of 16, up to 128
//   kTileQueries    a multiple of 64
//   kTileKeys       of all ways; a way has 64 or 128
//   kWays           1 or 2
//   kStages
//   kShared         bytes that the block takes at least, so that no more blocks share a multiprocessor than should
//   kCausal         keys after the query are invisible
//   kWindow         optional; 0 = none
//
// Position, Score, Epilogue: see mma_flash.cuh
//
//===----------------------------------------------------------------------===//
#pragma once

#include "attention/tensor_flash.cuh"
#include "device/block.cuh"
#include "device/warpgroup.cuh"

namespace kiln {

/// Constants that follow from a Config.
template <class Config> struct WgmmaFlashShape {
  static constexpr int kHeadSize = Config::kHeadSize, kQueries = Config::kTileQueries, kKeys = Config::kTileKeys;
  static constexpr int kWays = Config::kWays, kWayKeys = kKeys / kWays, kWayThreads = 2 * kQueries;
  static constexpr int kThreads = kWays * kWayThreads, kStages = Config::kStages;
  static constexpr int kWarpgroupQueries = 64, kWarpQueries = 16;
  static constexpr int kDepthSteps = kHeadSize / 16, kKeySteps = kWayKeys / 16; // steps of the two products
  static constexpr int kTilesOfKeys = kWayKeys / 8,
                       kTilesOfDims = kHeadSize / 8; // columns of the two products, in tiles of 8
  static constexpr u32 kQueryBytes = HeadTile<kHeadSize>::bytes(kQueries);
  static constexpr u32 kKeyBytes = HeadTile<kHeadSize>::bytes(kKeys); // of one stage; the values take as many

  static_assert(kHeadSize % 16 == 0 && kHeadSize <= 128, "kHeadSize is a multiple of 16 up to 128");
  static_assert(kQueries % kWarpgroupQueries == 0, "a warpgroup has 64 queries");
  static_assert((kWays == 1 || kWays == 2) && (kWayKeys == 64 || kWayKeys == 128), "a way's products are whole");
  static_assert(kStages >= 2, "one tile is multiplied while another arrives");
};

/// What the ways but the first one hand over: the sums of their threads, their rows' references and sums of weights.
template <class Shape> struct WgmmaFlashWays {
  float out[Shape::kWays - 1][Shape::kTilesOfDims * 4][Shape::kWayThreads];
  float largest[Shape::kWays - 1][2][Shape::kWayThreads], sums[Shape::kWays - 1][2][Shape::kWayThreads];
};

template <class Config> struct WgmmaFlashStorage {
  using Shape = WgmmaFlashShape<Config>;
  alignas(kWarpgroupTileAlignment) u8 queries[Shape::kQueryBytes];
  alignas(kWarpgroupTileAlignment) u8 keys[Shape::kStages][Shape::kKeyBytes];
  alignas(kWarpgroupTileAlignment) u8 values[Shape::kStages][Shape::kKeyBytes];

  /// In place of the keys and values, when nobody reads these any more.
  KILN_DEVICE WgmmaFlashWays<Shape> &ways() {
    static_assert(sizeof(WgmmaFlashWays<Shape>) <= sizeof(keys) + sizeof(values));
    return *reinterpret_cast<WgmmaFlashWays<Shape> *>(keys);
  }
};

template <class Config>
constexpr SharedBytes kWgmmaFlashShared = {0, max(i64(sizeof(WgmmaFlashStorage<Config>)), i64(Config::kShared))};

/// The work of one thread on its block's tile of queries.
template <class Config, class T> struct WgmmaFlash {
  using Shape = WgmmaFlashShape<Config>;
  static constexpr int kKeys = Shape::kKeys, kStages = Shape::kStages;

  WgmmaFlashStorage<Config> &shared;
  const HeadView<T> &query, &key, &value;
  const float scale; // factor of scores, before the power of two
  const FlashTile<Config> tile;
  const int firstKey;             // first key of the first tile
  const T *nextKeys, *nextValues; // the next keys and values to copy

  MmaA queryFragments[Shape::kDepthSteps];
  MmaA weights[Shape::kKeySteps];
  WarpgroupSums<Shape::kTilesOfKeys> scores;
  WarpgroupSums<Shape::kTilesOfDims> out = {};
  FlashRows rows;

  KILN_DEVICE static int way() { return int(warpgroupIndex()) % Shape::kWays; }
  KILN_DEVICE static int warpgroupQuery() { return int(warpgroupIndex()) / Shape::kWays * Shape::kWarpgroupQueries; }
  KILN_DEVICE static int warpQuery() { return warpgroupQuery() + int(warpIndex()) % 4 * Shape::kWarpQueries; }
  /// The first key of the way in a tile of keys.
  KILN_DEVICE static int wayKey() { return way() * Shape::kWayKeys; }

  /// Starts the copy of the next tile of keys or values, number `step`, which begins at `source`.
  KILN_DEVICE void copy(const void *to, const T *&source, i64 stride, int step) const {
    if (const int first = firstKey + step * kKeys; first < tile.keyEnd)
      copyHeads<Shape::kHeadSize, kKeys, Shape::kThreads>(SharedAddress(to), source, stride, tile.keyEnd - first);
    source += kKeys * stride;
  }
  KILN_DEVICE void copyKeys(int step) { copy(shared.keys[step % kStages], nextKeys, key.tokenStride, step); }
  /// The values of a step and the keys of the next are one group of copies.
  KILN_DEVICE void copyStep(int step) {
    copyKeys(step + 1);
    copy(shared.values[step % kStages], nextValues, value.tokenStride, step);
    commitAsyncCopies();
  }
  /// Waits for all groups but the latest kPending.
  template <int kPending> KILN_DEVICE static void waitForCopies() {
    waitAsyncCopies<kPending>();
    fenceAsyncCopies();
    syncThreads();
  }

  KILN_DEVICE void keepQueries() {
    const SharedAddress from = SharedAddress(shared.queries) + flashQueryOffset(laneIndex());
#pragma unroll
    for (int i = 0; i < Shape::kDepthSteps; ++i)
      loadMatrices(queryFragments[i].words,
                   movedInTile<Shape::kQueries>(from + u32(warpQuery()) * kSwizzledRowBytes, 0, u32(i)));
  }

  /// scores = queries · keys^T.
  KILN_DEVICE void startScores(int step) {
    const SharedAddress keys = SharedAddress(shared.keys[step % kStages]) + u32(wayKey()) * kSwizzledRowBytes;
#pragma unroll
    for (int n = 0; n < Shape::kTilesOfKeys; n += 8)
#pragma unroll
      for (int i = 0; i < Shape::kDepthSteps; ++i)
        startProduct<T, RightRows::Columns, 8>(
            scores, n, queryFragments[i], keys,
            u32(i / 4 * kKeys + n * 8) * kSwizzledRowBytes + u32(i % 4) * 2 * kChunkBytes, i > 0);
    commitProducts();
  }

  /// out += weights · values.
  KILN_DEVICE void startOutput(int step) {
    constexpr int kWhole = Shape::kTilesOfDims / 8 * 8;
    const SharedAddress values = SharedAddress(shared.values[step % kStages]) + u32(wayKey()) * kSwizzledRowBytes;
#pragma unroll
    for (int i = 0; i < Shape::kKeySteps; ++i) {
      const u32 row = u32(i) * 16;
#pragma unroll
      for (int n = 0; n < kWhole; n += 8)
        startProduct<T, RightRows::Depth, 8>(out, n, weights[i], values, (u32(n / 8 * kKeys) + row) * kSwizzledRowBytes,
                                             true);
#pragma unroll
      for (int n = kWhole; n < Shape::kTilesOfDims; n += 2)
        startProduct<T, RightRows::Depth, 2>(out, n, weights[i], values,
                                             (u32(n / 8 * kKeys) + row) * kSwizzledRowBytes + u32(n % 8) * kChunkBytes,
                                             true);
    }
    commitProducts();
  }

  /// Turns the scores of a step into weights, not yet rounded. Returns whether the output is to be scaled.
  KILN_DEVICE bool weigh(MmaSums (&unrounded)[Shape::kTilesOfKeys], int step, float (&factors)[2]) {
    const int first = firstKey + step * kKeys + wayKey();
    const bool isWhole = first + Shape::kWayKeys <= tile.visibleEnd(warpQuery()) &&
                         first >= tile.firstVisible(warpQuery() + Shape::kWarpQueries - 1);
#pragma unroll
    for (int n = 0; n < Shape::kTilesOfKeys; ++n)
      unrounded[n] = scores.tiles[n];
    if (!isWhole)
      FlashRows::mask(unrounded, tile, warpQuery(), first);
    const bool rises = any(rows.weigh(unrounded, scale, factors));
    pinRegisters(unrounded); // keeps the compiler from delaying this until the products in flight have finished
    return rises;
  }

  KILN_DEVICE void roundWeights(const MmaSums (&unrounded)[Shape::kTilesOfKeys]) {
#pragma unroll
    for (int i = 0; i < Shape::kKeySteps; ++i)
      weights[i] = FlashRows::rounded<T>(unrounded, i);
  }

  KILN_DEVICE void first() {
    fenceProducts(scores, queryFragments);
    startScores(0);
    waitProducts<0>();
    receive(scores);
    MmaSums unrounded[Shape::kTilesOfKeys];
    float factors[2];
    weigh(unrounded, 0, factors);
    roundWeights(unrounded);
  }

  KILN_DEVICE void next(int step) {
    fenceProducts(scores, out, queryFragments, weights);
    startScores(step);
    startOutput(step - 1);
    waitProducts<1>();
    receive(scores);
    MmaSums unrounded[Shape::kTilesOfKeys];
    float factors[2];
    const bool rises = weigh(unrounded, step, factors);
    // All warps of the warpgroup wait at one instruction; whether the output rises differs between them.
    waitProducts<0>();
    receive(out);
    if (rises)
      FlashRows::scaleOutput(out.tiles, factors);
    roundWeights(unrounded);
  }

  KILN_DEVICE void last(int step) {
    fenceProducts(out, weights);
    startOutput(step);
    waitProducts<0>();
    receive(out);
  }

  /// All tiles of keys.
  KILN_DEVICE void run() {
    copyHeads<Shape::kHeadSize, Shape::kQueries, Shape::kThreads>(SharedAddress(shared.queries),
                                                                  query.at(tile.b, tile.h, tile.firstQuery),
                                                                  query.tokenStride, tile.queries - tile.firstQuery);
    copyKeys(0);
    commitAsyncCopies();
#pragma unroll
    for (int step = 0; step < kStages - 1; ++step)
      copyStep(step);
    waitForCopies<kStages - 1>();
    keepQueries();
    first();
    const int end = tile.visibleEnd(warpgroupQuery() + Shape::kWarpgroupQueries - 1);
    const int steps = ceilDiv(tile.keyEnd - firstKey, kKeys);
    const int ownSteps = max(1, ceilDiv(end - firstKey - wayKey(), kKeys)); // the first one is masked if it has no key
#pragma unroll 1
    for (int step = 1; step <= steps; ++step) {
      waitForCopies<kStages - 2>(); // keys of this step and values of the last; earlier tiles are no longer read
      copyStep(step + kStages - 2);
      if (step < ownSteps)
        next(step);
      else if (step == ownSteps)
        last(step - 1);
    }
  }

  /// Adds the sums of the other ways to those of the first one.
  KILN_DEVICE void mergeWays() {
    auto &others = shared.ways();
    const int thread = warpgroupQuery() * 2 + int(threadIndex() % kWarpgroupSize);
    waitForCopies<0>();
    if (way() > 0) {
#pragma unroll
      for (int i = 0; i < Shape::kTilesOfDims * 4; ++i)
        others.out[way() - 1][i][thread] = out.tiles[i / 4].values[i % 4];
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        others.largest[way() - 1][half][thread] = rows.largest[half];
        others.sums[way() - 1][half][thread] = rows.sums[half];
      }
    }
    syncThreads();
    if (way() > 0)
      return;
#pragma unroll
    for (int other = 0; other < Shape::kWays - 1; ++other) {
      const FlashRows more = {{others.largest[other][0][thread], others.largest[other][1][thread]},
                              {others.sums[other][0][thread], others.sums[other][1][thread]}};
      float own[2], theirs[2];
      rows.merge(more, scale, own, theirs);
#pragma unroll
      for (int i = 0; i < Shape::kTilesOfDims * 4; ++i) {
        float &value = out.tiles[i / 4].values[i % 4];
        value = fma(others.out[other][i][thread], theirs[i % 4 / 2], value * own[i % 4 / 2]);
      }
    }
  }

  template <class Epilogue> KILN_DEVICE void finish(const Epilogue &epilogue) {
    if constexpr (Shape::kWays > 1) {
      mergeWays();
      if (way() > 0)
        return;
    }
    if constexpr (Shape::kTilesOfDims % 4 == 0)
      rows.finishWide(out.tiles, tile, warpQuery(), epilogue);
    else
      rows.finish(out.tiles, tile, warpQuery(), epilogue);
  }
};

/// The kernel's body: `queries` tokens and `keys` keys a head, keys ≥ 1.
template <class Config, class T, class Position, class Score, class Epilogue>
KILN_DEVICE void wgmmaFlash(int queries, int keys, const HeadView<T> &query, const HeadView<T> &key,
                            const HeadView<T> &value, const Position &position, const Score &,
                            const Epilogue &epilogue) {
  const FlashTile<Config> tile = flashTile<Config>(queries, keys, position);
  const int firstKey = tile.firstKey();
  WgmmaFlash<Config, T> thread{dynamicShared<WgmmaFlashStorage<Config>>(),
                               query,
                               key,
                               value,
                               flashScale<Score>(),
                               tile,
                               firstKey,
                               key.at(tile.b, tile.h, firstKey),
                               value.at(tile.b, tile.h, firstKey)};
  thread.run();
  thread.finish(epilogue);
}

} // namespace kiln
