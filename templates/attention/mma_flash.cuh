//===- mma_flash.cuh - causal attention in tensor cores --------------------------===//
//
// out[b, h, t, :] = Σ_key softmax(factor · q[b, h, t, :] · k[b, h, key, :]) v[b, h, key, :] over the visible keys, for
// many queries a head (prefill), elements of bf16 or f16; sm_80 and up.
//
// Method: FlashAttention-2 (Dao, 2023): a block keeps a tile of queries and walks over the tiles of keys, with the
// online softmax of Milakov and Gimelshein. A warp has kTileQueries / kWarps rows of queries and all keys of a tile, so
// that nothing is exchanged between warps. The weights, rounded to the element type, are the left operand of the second
// product in the registers where the first one left the scores. Exponentials are powers of two, the factor and
// log2(e) folded into one multiplication.
//
// Query t of row b stands at position(b) + t. Keys 0 .. keys are visible, with kCausal only those up to the query's
// position, with kWindow > 0 only the last kWindow of them. Tiles that no query of the block sees are skipped, those
// that no query of a warp sees by that warp. Sums and products are in a fixed order.
//
// Launch: grid (heads, batch, ceildiv(queries, kTileQueries)), block 32 · kWarps; the blocks with the most keys first.
//
// Shared memory, all of it dynamic: 128 · ceildiv(kHeadSize, 64) · (kTileQueries + 2 · kStages · kTileKeys) bytes.
// Operands are stored in rows of 128 bytes, which hold 64 elements of a head. Their chunks of 16 bytes are permuted by
// the row (swizzledOffset), so that neither copies nor matrix loads have bank conflicts. kStages tiles of keys and
// values are stored or in flight. A head size that is not a multiple of 16 is padded with zeros there.
//
// Config:
//   kHeadSize       a multiple of 8, up to 256
//   kTileQueries    16 or 32 times kWarps
//   kTileKeys       a multiple of 16
//   kWarps, kStages
//   kCausal         keys after the query are invisible
//   kWindow         optional; 0 = none
//
// Position:  int operator()(int b) const                    position of the first query of row b
// Score:     static constexpr float kFactor                 positive; scores are factor · q · k
// Epilogue:  template <int V> void operator()(Vec<float, V> out, int b, int h, int t, int d) const
//
//===----------------------------------------------------------------------===//
#pragma once

#include "attention/tensor_flash.cuh"
#include "device/block.cuh"

namespace kiln {

/// Constants that follow from a Config.
template <class Config> struct MmaFlashShape {
  static constexpr int kHeadSize = Config::kHeadSize, kQueries = Config::kTileQueries, kKeys = Config::kTileKeys;
  static constexpr int kThreads = int(kWarpSize) * Config::kWarps, kStages = Config::kStages;
  static constexpr int kWarpQueries = kQueries / Config::kWarps, kM = kWarpQueries / 16;

  static constexpr int kDepthSteps = HeadTile<kHeadSize>::kDepthSteps; // steps of the first product
  static constexpr int kTilesOfKeys = kKeys / 8,
                       kTilesOfDims = kHeadSize / 8; // columns of the two products, in tiles of 8
  static constexpr u32 kQueryBytes = HeadTile<kHeadSize>::bytes(kQueries);
  static constexpr u32 kKeyBytes = HeadTile<kHeadSize>::bytes(kKeys); // of one stage; the values take as many
  static constexpr bool kKeepsQueries = kM * kDepthSteps <= 8;        // whether queries stay in registers

  static_assert(kHeadSize % 8 == 0 && kHeadSize <= 256, "kHeadSize is a multiple of 8 up to 256");
  static_assert(kM * 16 * Config::kWarps == kQueries && (kM == 1 || kM == 2), "a warp has 16 or 32 queries");
  static_assert(kKeys % 16 == 0 && kStages >= 2, "whole steps of keys, one multiplied while another arrives");
};

template <class Config> struct MmaFlashStorage {
  using Shape = MmaFlashShape<Config>;
  alignas(128) u8 queries[Shape::kQueryBytes];
  alignas(128) u8 stages[Shape::kStages][2][Shape::kKeyBytes]; // keys, values
};

template <class Config> constexpr SharedBytes kMmaFlashShared = {0, sizeof(MmaFlashStorage<Config>)};

/// The place that a lane's first matrix load of keys reads: both chunks of 8 keys, the right operand of one
/// instruction, then those of the next 8 keys.
KILN_DEVICE constexpr u32 flashKeyOffset(u32 lane) {
  return swizzledOffset(lane / 16 * 8 + lane % 8, lane / 8 % 2, lane);
}
/// The place that a lane's first matrix load of values reads: 16 keys of a chunk, transposed, are the right operand of
/// one instruction; those of the next chunk follow.
KILN_DEVICE constexpr u32 flashValueOffset(u32 lane) { return swizzledOffset(lane % 16, lane / 16, lane); }

/// The work of one thread on its block's tile of queries.
template <class Config, class T> struct MmaFlash {
  using Shape = MmaFlashShape<Config>;
  static constexpr int kM = Shape::kM, kKeyTiles = Shape::kTilesOfKeys, kDimTiles = Shape::kTilesOfDims;

  MmaFlashStorage<Config> &shared;
  const HeadView<T> &query, &key, &value;
  const float scale; // factor of scores, before the power of two
  const FlashTile<Config> tile;

  MmaA queryFragments[kM][Shape::kKeepsQueries ? Shape::kDepthSteps : 1];
  MmaSums out[kM][kDimTiles] = {};
  FlashRows rows[kM] = {};

  KILN_DEVICE static int warpQuery() { return int(warpIndex()) * Shape::kWarpQueries; }

  template <int kRows> KILN_DEVICE void copy(SharedAddress to, const HeadView<T> &from, int first, int end) const {
    copyHeads<Shape::kHeadSize, kRows, Shape::kThreads>(to, from.at(tile.b, tile.h, first), from.tokenStride,
                                                        end - first);
  }

  KILN_DEVICE SharedAddress stageAddress(int stage) const {
    return SharedAddress(shared.stages) + u32(stage) * 2 * Shape::kKeyBytes;
  }

  KILN_DEVICE void copyStage(int firstKey, int stage) const {
    if (firstKey < tile.keyEnd) {
      copy<Shape::kKeys>(stageAddress(stage), key, firstKey, tile.keyEnd);
      copy<Shape::kKeys>(stageAddress(stage) + Shape::kKeyBytes, value, firstKey, tile.keyEnd);
    }
    commitAsyncCopies();
  }

  KILN_DEVICE void loadQuery(MmaA &to, int m, int step) const {
    const SharedAddress from = SharedAddress(shared.queries) + flashQueryOffset(laneIndex());
    loadMatrices(to.words,
                 movedInTile<Shape::kQueries>(from + u32(warpQuery()) * kSwizzledRowBytes, u32(m * 16), u32(step)));
  }

  /// scores = query tile · key tile^T.
  KILN_DEVICE void multiplyKeys(MmaSums (&scores)[kM][kKeyTiles], SharedAddress keys) {
    const SharedAddress from = keys + flashKeyOffset(laneIndex());
#pragma unroll
    for (int step = 0; step < Shape::kDepthSteps; ++step) {
      MmaA loaded[kM];
#pragma unroll
      for (int m = 0; m < kM; ++m) {
        if constexpr (Shape::kKeepsQueries)
          loaded[m] = queryFragments[m][step];
        else
          loadQuery(loaded[m], m, step);
      }
#pragma unroll
      for (int n = 0; n < kKeyTiles; n += 2) {
        u32 words[4];
        loadMatrices(words, movedInTile<Shape::kKeys>(from, u32(n * 8), u32(step)));
#pragma unroll
        for (int m = 0; m < kM; ++m) {
          multiplyAdd<T>(scores[m][n], loaded[m], {{words[0], words[1]}});
          multiplyAdd<T>(scores[m][n + 1], loaded[m], {{words[2], words[3]}});
        }
      }
    }
  }

  /// Masks the scores of keys of the tile at `firstKey` that the queries do not see.
  KILN_DEVICE void mask(MmaSums (&scores)[kM][kKeyTiles], int firstKey) const {
    const bool isWhole = firstKey + Shape::kKeys <= tile.visibleEnd(warpQuery()) &&
                         firstKey >= tile.firstVisible(warpQuery() + Shape::kWarpQueries - 1);
    if (isWhole)
      return;
#pragma unroll
    for (int m = 0; m < kM; ++m)
      FlashRows::mask(scores[m], tile, warpQuery() + m * 16, firstKey);
  }

  /// Turns the scores into weights, and rescales sums that used an older maximum.
  KILN_DEVICE void weigh(MmaSums (&scores)[kM][kKeyTiles]) {
    float factors[kM][2];
    bool rises = false;
#pragma unroll
    for (int m = 0; m < kM; ++m)
      rises |= rows[m].weigh(scores[m], scale, factors[m]);
    if (!any(rises))
      return;
#pragma unroll
    for (int m = 0; m < kM; ++m)
      FlashRows::scaleOutput(out[m], factors[m]);
  }

  /// out += weights · value tile.
  KILN_DEVICE void multiplyValues(const MmaSums (&weights)[kM][kKeyTiles], SharedAddress values) {
    const SharedAddress from = values + flashValueOffset(laneIndex());
#pragma unroll
    for (int step = 0; step < Shape::kKeys / 16; ++step) {
      MmaA rounded[kM];
#pragma unroll
      for (int m = 0; m < kM; ++m)
        rounded[m] = FlashRows::rounded<T>(weights[m], step);
#pragma unroll
      for (int n = 0; n < kDimTiles; n += 2) {
        u32 words[4];
        loadMatricesTransposed(words, movedInTile<Shape::kKeys>(from, u32(step * 16), u32(n / 2)));
#pragma unroll
        for (int m = 0; m < kM; ++m) {
          multiplyAdd<T>(out[m][n], rounded[m], {{words[0], words[1]}});
          if (n + 1 < kDimTiles)
            multiplyAdd<T>(out[m][n + 1], rounded[m], {{words[2], words[3]}});
        }
      }
    }
  }

  KILN_DEVICE void attend(int firstKey, int stage) {
    if (firstKey >= tile.visibleEnd(warpQuery() + Shape::kWarpQueries - 1))
      return;
    MmaSums scores[kM][kKeyTiles] = {};
    multiplyKeys(scores, stageAddress(stage));
    mask(scores, firstKey);
    weigh(scores);
    multiplyValues(scores, stageAddress(stage) + Shape::kKeyBytes);
  }

  KILN_DEVICE void keepQueries() {
    if constexpr (Shape::kKeepsQueries) {
#pragma unroll
      for (int m = 0; m < kM; ++m)
#pragma unroll
        for (int step = 0; step < Shape::kDepthSteps; ++step)
          loadQuery(queryFragments[m][step], m, step);
    }
  }

  /// All tiles of keys. At the top of the loop, kStages - 1 of them are on their way.
  KILN_DEVICE void run() {
    int firstKey = tile.firstKey();
    copy<Shape::kQueries>(SharedAddress(shared.queries), query, tile.firstQuery, tile.queries);
#pragma unroll
    for (int i = 0; i < Shape::kStages - 1; ++i)
      copyStage(firstKey + i * Shape::kKeys, i);
    waitAsyncCopies<Shape::kStages - 2>();
    syncThreads();
    keepQueries();
    int stage = 0;
#pragma unroll 1
    for (; firstKey < tile.keyEnd; firstKey += Shape::kKeys) {
      waitAsyncCopies<Shape::kStages - 2>();
      syncThreads(); // the tile has arrived, and the previous one is no longer read
      copyStage(firstKey + (Shape::kStages - 1) * Shape::kKeys, stage == 0 ? Shape::kStages - 1 : stage - 1);
      attend(firstKey, stage);
      stage = stage + 1 == Shape::kStages ? 0 : stage + 1;
    }
  }

  template <class Epilogue> KILN_DEVICE void finish(const Epilogue &epilogue) const {
#pragma unroll
    for (int m = 0; m < kM; ++m)
      FlashRows::finish(out[m], rows[m].normalization(), tile, warpQuery() + m * 16, epilogue);
  }
};

/// The kernel's body: `queries` tokens and `keys` keys a head, keys ≥ 1.
template <class Config, class T, class Position, class Score, class Epilogue>
KILN_DEVICE void mmaFlash(int queries, int keys, const HeadView<T> &query, const HeadView<T> &key,
                          const HeadView<T> &value, const Position &position, const Score &, const Epilogue &epilogue) {
  MmaFlash<Config, T> thread{dynamicShared<MmaFlashStorage<Config>>(),  query, key, value, flashScale<Score>(),
                             flashTile<Config>(queries, keys, position)};
  thread.run();
  thread.finish(epilogue);
}

} // namespace kiln
