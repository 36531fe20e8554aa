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
// Query t of row b stands at position(b) + t. Visible are keys 0 .. keys, with kCausal only those up to the query's
// position, with kWindow > 0 only the last kWindow of them. Tiles that no query of the block sees are skipped, those
// that no query of a warp sees by that warp. Sums and products are in a fixed order.
//
// Launch: grid (heads, batch, ceildiv(queries, kTileQueries)), block 32 · kWarps; the blocks with the most keys first.
//
// Shared memory, all dynamic, in bytes (kMmaFlashSharedBytes): 128 · ceildiv(kHeadSize, 64) · (kTileQueries + 2 ·
// kStages · kTileKeys). Operands lie in rows of 128 bytes, 64 elements of a head, whose chunks of 16 bytes are permuted
// by the row (swizzledOffset): neither copies nor matrix loads have bank conflicts. kStages tiles of keys and values
// are there or on their way. A head size that is no multiple of 16 is padded with zeros there.
//
// Config:
//   kHeadSize       a multiple of 8, up to 256
//   kTileQueries    16 or 32 times kWarps
//   kTileKeys       a multiple of 16
//   kWarps, kStages
//   kCausal         keys behind the query are invisible
//   kWindow         optional; 0 = none
//
// Position:  int operator()(int b) const                    position of the first query of row b
// Score:     static constexpr float kFactor                 positive; scores are factor · q · k
// Epilogue:  template <int V> void operator()(Vec<float, V> out, int b, int h, int t, int d) const
//
//===----------------------------------------------------------------------===//
#pragma once

#include "attention/head_view.cuh"
#include "attention/window.cuh"
#include "device/async_copy.cuh"
#include "device/base.cuh"
#include "device/block.cuh"
#include "device/index.cuh"
#include "device/math.cuh"
#include "device/shared.cuh"
#include "device/tensor_core.cuh"
#include "device/vec.cuh"
#include "device/warp.cuh"
#include "norm/online_softmax.cuh"
#include "shape.cuh"

namespace kiln {

/// What follows from a Config.
template <class Config> struct MmaFlashShape {
  static constexpr int kHeadSize = Config::kHeadSize, kQueries = Config::kTileQueries, kKeys = Config::kTileKeys;
  static constexpr int kThreads = int(kWarpSize) * Config::kWarps, kStages = Config::kStages;
  static constexpr int kWarpQueries = kQueries / Config::kWarps, kM = kWarpQueries / 16;
  static constexpr int kWindow = flashWindow<Config>(0);

  static constexpr int kChunks = kHeadSize / 8;                                // of 16 bytes, of a head
  static constexpr int kRowsAtOnce = kThreads / int(kRowChunks);               // that the threads copy
  static constexpr int kDepthSteps = ceilDiv(kHeadSize, 16);                   // of the first product
  static constexpr int kSlabs = ceilDiv(kHeadSize, 64);                        // of rows of 128 bytes
  static constexpr int kTilesOfKeys = kKeys / 8, kTilesOfDims = kHeadSize / 8; // columns of the two products, by eight
  static constexpr u32 kQueryBytes = kSlabs * kQueries * kSwizzledRowBytes;
  static constexpr u32 kKeyBytes = kSlabs * kKeys * kSwizzledRowBytes; // of one stage, and as many for the values
  static constexpr bool kKeepsQueries = kM * kDepthSteps <= 8;         // in registers

  static_assert(kHeadSize % 8 == 0 && kHeadSize <= 256, "kHeadSize is a multiple of 8 up to 256");
  static_assert(kM * 16 * Config::kWarps == kQueries && (kM == 1 || kM == 2), "a warp has 16 or 32 queries");
  static_assert(kKeys % 16 == 0 && kStages >= 2, "whole steps of keys, one multiplied while another arrives");
};

template <class Config> struct MmaFlashStorage {
  using Shape = MmaFlashShape<Config>;
  alignas(128) u8 queries[Shape::kQueryBytes];
  alignas(128) u8 stages[Shape::kStages][2][Shape::kKeyBytes]; // keys, values
};

template <class Config> constexpr int kMmaFlashSharedBytes = int(sizeof(MmaFlashStorage<Config>));

/// Where a lane's first matrix load reads: 16 queries and their chunks 0 and 1, the left operand.
KILN_DEVICE constexpr u32 flashQueryOffset(u32 lane) { return swizzledOffset(lane % 16, lane / 16, lane); }
/// Both chunks of 8 keys, the right operand of one instruction, then of the 8 keys below.
KILN_DEVICE constexpr u32 flashKeyOffset(u32 lane) {
  return swizzledOffset(lane / 16 * 8 + lane % 8, lane / 8 % 2, lane);
}
/// 16 keys of a chunk of values, transposed the right operand of one instruction, then of the next chunk.
KILN_DEVICE constexpr u32 flashValueOffset(u32 lane) { return swizzledOffset(lane % 16, lane / 16, lane); }

/// The work of one thread on its block's tile of queries of head h of row b.
template <class Config, class T> struct MmaFlash {
  using Shape = MmaFlashShape<Config>;
  static constexpr int kM = Shape::kM, kKeyTiles = Shape::kTilesOfKeys, kDimTiles = Shape::kTilesOfDims;
  static constexpr u32 kPerRow = kRowChunks;

  MmaFlashStorage<Config> &shared;
  const HeadView<T> &query, &key, &value;
  const float scale; // of scores, before a power of two
  const int queries, b, h;
  const int firstQuery; // of the tile
  const int position;   // of query 0
  const int keyEnd;     // first key that no query of the tile sees

  MmaA queryFragments[kM][Shape::kKeepsQueries ? Shape::kDepthSteps : 1];
  MmaSums out[kM][kDimTiles] = {};
  // Of rows lane / 4 and lane / 4 + 8 of each 16: what weights refer to, the largest score or one not far below it, and
  // the thread's share of the sum.
  float largest[kM][2], sums[kM][2];

  KILN_DEVICE static int warpQuery() { return int(warpIndex()) * Shape::kWarpQueries; }
  /// Row, within the tile, of out[m][…].values[2 · half].
  KILN_DEVICE static int rowOf(int m, int half) { return warpQuery() + m * 16 + half * 8 + int(laneIndex()) / 4; }

  /// Starts the copy of kRows rows of heads; rows from `end` on repeat the last one. What pads a row is zero.
  template <int kRows> KILN_DEVICE void copy(SharedAddress to, const HeadView<T> &from, int first, int end) const {
    constexpr int kPadded = 2 * Shape::kDepthSteps; // chunks of a row
    const int row = int(threadIndex() / kPerRow), chunk = int(threadIndex() % kPerRow);
    const SharedAddress place = to + swizzledOffset(u32(row), u32(chunk), u32(row));
#pragma unroll
    for (int i = 0; i < ceilDiv(kRows, Shape::kRowsAtOnce); ++i) {
      const u32 below = u32(i * Shape::kRowsAtOnce); // its part in the key is constant
      if (kRows % Shape::kRowsAtOnce != 0 && row + int(below) >= kRows)
        continue;
      const T *source = from.at(b, h, min(first + row + int(below), end - 1));
#pragma unroll
      for (int slab = 0; slab < Shape::kSlabs; ++slab) {
        const int column = slab * int(kPerRow) + chunk;
        if (slab * int(kPerRow) + int(kPerRow) > kPadded && column >= kPadded)
          continue;
        const bool exists = slab * int(kPerRow) + int(kPerRow) <= Shape::kChunks || column < Shape::kChunks;
        copyAsync((place ^ below % kPerRow * kChunkBytes) + (u32(slab * kRows) + below) * kSwizzledRowBytes,
                  source + (exists ? column * 8 : 0), exists ? kChunkBytes : 0);
      }
    }
  }

  KILN_DEVICE SharedAddress stageAddress(int stage) const {
    return SharedAddress(shared.stages) + u32(stage) * 2 * Shape::kKeyBytes;
  }

  KILN_DEVICE void copyStage(int firstKey, int stage) const {
    if (firstKey < keyEnd) {
      copy<Shape::kKeys>(stageAddress(stage), key, firstKey, keyEnd);
      copy<Shape::kKeys>(stageAddress(stage) + Shape::kKeyBytes, value, firstKey, keyEnd);
    }
    commitAsyncCopies();
  }

  /// From a lane's address of its first chunk to the one two `pair`s further, `row` (a multiple of 8) rows below.
  template <int kRows> KILN_DEVICE static SharedAddress moved(SharedAddress from, u32 row, u32 pair) {
    return (from ^ pair * 2 % kPerRow * kChunkBytes) + (pair * 2 / kPerRow * kRows + row) * kSwizzledRowBytes;
  }

  KILN_DEVICE void loadQuery(MmaA &to, int m, int step) const {
    const SharedAddress from = SharedAddress(shared.queries) + flashQueryOffset(laneIndex());
    loadMatrices(to.words, moved<Shape::kQueries>(from + u32(warpQuery()) * kSwizzledRowBytes, u32(m * 16), u32(step)));
  }

  /// scores = query tile · key tile^T.
  KILN_DEVICE void multiplyKeys(MmaSums (&scores)[kM][kKeyTiles], SharedAddress tile) {
    const SharedAddress from = tile + flashKeyOffset(laneIndex());
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
        loadMatrices(words, moved<Shape::kKeys>(from, u32(n * 8), u32(step)));
#pragma unroll
        for (int m = 0; m < kM; ++m) {
          multiplyAdd<T>(scores[m][n], loaded[m], {{words[0], words[1]}});
          multiplyAdd<T>(scores[m][n + 1], loaded[m], {{words[2], words[3]}});
        }
      }
    }
  }

  /// The keys that the tile's query `q` sees: [firstVisible, visibleEnd).
  KILN_DEVICE int visibleEnd(int q) const {
    return Config::kCausal ? min(keyEnd, position + firstQuery + q + 1) : keyEnd;
  }
  KILN_DEVICE int firstVisible(int q) const {
    return Shape::kWindow > 0 ? max(0, position + firstQuery + q + 1 - Shape::kWindow) : 0;
  }

  /// Hides what the queries do not see of the tile of keys at `firstKey`.
  KILN_DEVICE void mask(MmaSums (&scores)[kM][kKeyTiles], int firstKey) const {
    const bool isWhole = firstKey + Shape::kKeys <= visibleEnd(warpQuery()) &&
                         firstKey >= firstVisible(warpQuery() + Shape::kWarpQueries - 1);
    if (isWhole)
      return;
#pragma unroll
    for (int m = 0; m < kM; ++m)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int first = firstVisible(rowOf(m, half)), end = visibleEnd(rowOf(m, half));
#pragma unroll
        for (int n = 0; n < kKeyTiles; ++n)
#pragma unroll
          for (int i = 0; i < 2; ++i) {
            const int k = firstKey + n * 8 + int(laneIndex()) % 4 * 2 + i;
            float &score = scores[m][n].values[2 * half + i];
            score = k >= first && k < end ? score : -infinity();
          }
      }
  }

  /// Turns the scores into weights, and scales what was summed under an older maximum. That one stays while weights
  /// are at most 2^8 under it, so that after the first tiles there is seldom something to scale.
  KILN_DEVICE void weigh(MmaSums (&scores)[kM][kKeyTiles]) {
    constexpr float kSlack = 8;
    float factors[kM][2];
    bool rises = false;
#pragma unroll
    for (int m = 0; m < kM; ++m)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float tileLargest = -infinity();
#pragma unroll
        for (int n = 0; n < kKeyTiles; ++n)
          tileLargest = fmax(tileLargest, fmax(scores[m][n].values[2 * half], scores[m][n].values[2 * half + 1]));
        tileLargest = warpMax<4>(tileLargest);
        float &reference = largest[m][half];
        const bool isHigher = tileLargest * scale > fma(reference, scale, kSlack);
        const float raised = isHigher ? tileLargest : reference;
        const float shift = softmaxShift(raised) * scale;
        factors[m][half] = exp2(fma(reference, scale, -shift));
        reference = raised;
        rises |= isHigher;
        float sum = sums[m][half] * factors[m][half];
#pragma unroll
        for (int n = 0; n < kKeyTiles; ++n)
#pragma unroll
          for (int i = 0; i < 2; ++i) {
            float &score = scores[m][n].values[2 * half + i];
            score = exp2(fma(score, scale, -shift));
            sum += score;
          }
        sums[m][half] = sum;
      }
    if (any(rises))
      scaleOutput(factors);
  }

  KILN_DEVICE void scaleOutput(const float (&factors)[kM][2]) {
#pragma unroll
    for (int m = 0; m < kM; ++m)
#pragma unroll
      for (int n = 0; n < kDimTiles; ++n)
#pragma unroll
        for (int i = 0; i < 4; ++i)
          out[m][n].values[i] *= factors[m][i / 2];
  }

  /// out += weights · value tile.
  KILN_DEVICE void multiplyValues(const MmaSums (&weights)[kM][kKeyTiles], SharedAddress tile) {
    const SharedAddress from = tile + flashValueOffset(laneIndex());
#pragma unroll
    for (int step = 0; step < Shape::kKeys / 16; ++step) {
      MmaA rounded[kM];
#pragma unroll
      for (int m = 0; m < kM; ++m)
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const float *pair = weights[m][2 * step + i / 2].values + i % 2 * 2;
          rounded[m].words[i] = pairFromFloat<T>(pair[0], pair[1]);
        }
#pragma unroll
      for (int n = 0; n < kDimTiles; n += 2) {
        u32 words[4];
        loadMatricesTransposed(words, moved<Shape::kKeys>(from, u32(step * 16), u32(n / 2)));
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
    if (firstKey >= visibleEnd(warpQuery() + Shape::kWarpQueries - 1))
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
#pragma unroll
    for (int m = 0; m < kM; ++m)
      largest[m][0] = largest[m][1] = -infinity(), sums[m][0] = sums[m][1] = 0;
    int firstKey = firstVisible(0) / Shape::kKeys * Shape::kKeys;
    copy<Shape::kQueries>(SharedAddress(shared.queries), query, firstQuery, queries);
#pragma unroll
    for (int i = 0; i < Shape::kStages - 1; ++i)
      copyStage(firstKey + i * Shape::kKeys, i);
    waitAsyncCopies<Shape::kStages - 2>();
    syncThreads();
    keepQueries();
    int stage = 0;
#pragma unroll 1
    for (; firstKey < keyEnd; firstKey += Shape::kKeys) {
      waitAsyncCopies<Shape::kStages - 2>();
      syncThreads(); // the tile is there, and the one in front of it is done with
      copyStage(firstKey + (Shape::kStages - 1) * Shape::kKeys, stage == 0 ? Shape::kStages - 1 : stage - 1);
      attend(firstKey, stage);
      stage = stage + 1 == Shape::kStages ? 0 : stage + 1;
    }
  }

  template <class Epilogue> KILN_DEVICE void finish(const Epilogue &epilogue) const {
#pragma unroll
    for (int m = 0; m < kM; ++m)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const float normalization = softmaxScale(warpSum<4>(sums[m][half]));
        const int t = firstQuery + rowOf(m, half);
        if (t >= queries)
          continue;
#pragma unroll
        for (int n = 0; n < kDimTiles; ++n) {
          const float *pair = out[m][n].values + 2 * half;
          epilogue(Vec<float, 2>{pair[0] * normalization, pair[1] * normalization}, b, h, t,
                   n * 8 + int(laneIndex()) % 4 * 2);
        }
      }
  }
};

/// The kernel's body: `queries` tokens and `keys` keys a head, keys ≥ 1.
template <class Config, class T, class Position, class Score, class Epilogue>
KILN_DEVICE void mmaFlash(int queries, int keys, const HeadView<T> &query, const HeadView<T> &key,
                          const HeadView<T> &value, const Position &position, const Score &, const Epilogue &epilogue) {
  using Shape = MmaFlashShape<Config>;
  static_assert(Score::kFactor > 0, "the largest product has the largest score");
  constexpr float kLog2E = 1.44269504f;
  const int b = int(blockIndexY()), h = int(blockIndexX());
  const int firstQuery = int(gridBlocksZ() - 1 - blockIndexZ()) * Shape::kQueries;
  const int origin = position(b);
  const int tileEnd = min(firstQuery + Shape::kQueries, queries);
  const int keyEnd = Config::kCausal ? min(keys, origin + tileEnd) : keys;
  MmaFlash<Config, T> tile{dynamicShared<MmaFlashStorage<Config>>(),
                           query,
                           key,
                           value,
                           Score::kFactor * kLog2E,
                           queries,
                           b,
                           h,
                           firstQuery,
                           origin,
                           keyEnd};
  tile.run();
  tile.finish(epilogue);
}

} // namespace kiln
