//===- simt_flash.cuh - causal attention without the score matrix --------------===//
//
// out[b, h, t, :] = Σ_key softmax(score(q[b, h, t, :] · k[b, h, key, :])) v[b, h, key, :] over the visible
// keys, for many queries a head (prefill), fp32 arithmetic on any GPU.
//
// Method: FlashAttention-2 (Dao, 2023): a block keeps a tile of queries and walks over the tiles of keys,
// with the online softmax of Milakov and Gimelshein; the output is divided by the sum once, at the end. Both
// products are register-tiled as in gemm/simt_tiled.cuh. Key tiles that no query of the block may see are
// skipped, and only tiles that some query sees in part are masked. The next tile of keys or values travels
// through registers while the current one is multiplied.
//
// Query t of row b stands at position(b) + t. Keys 0 .. keys are visible, with kCausal only those up to the query's
// position, with kWindow > 0 only the last kWindow of them. Sums and products are in a fixed order.
//
// Launch: grid (ceildiv(queries, kTileQueries), heads, batch), block kThreads; the blocks with the most keys
// first.
//
// Which thread holds what: kLanesX = 16 (else 8) neighbouring lanes share kThreadQueries = kTileQueries ·
// kLanesX / kThreads consecutive queries, both of the scores and of the output, so that row maxima and sums
// take shuffles alone, and the weights need no more than a warp's barrier to become the left operand of the
// second product. Lane x of them has keys x, x + kLanesX, … of the scores and a like share of the head's
// elements of the output.
//
// Shared memory, in bytes: 4 times
//   (kTileQueries + kTileKeys) · (kHeadSize + 4) + kTileKeys · kHeadSize + kTileQueries · (kTileKeys + 4)
// Up to 48 KB it is static; beyond, all of it is the launch's dynamic shared memory. The pitches are odd
// multiples of 16 bytes: reads of 16 bytes in neighbouring rows do not meet in a bank.
//
// Registers: kThreadQueries · (kTileKeys + kHeadSize) / kLanesX for scores and output, and for the tile under
// way kTileKeys · kHeadSize / kThreads elements. Head size 64, queries × keys × threads: 32 × 32 × 128 takes
// 96, 64 × 64 × 256 128 to 141, 64 × 32 × 128 168; head size 256, 32 × 16 × 128: 237.
//
// Config:
//   kHeadSize       a multiple of 8, up to 256
//   kTileQueries    a multiple of kThreads / kLanesX
//   kTileKeys       a multiple of kLanesX
//   kThreads        a multiple of 32
//   kCausal         keys behind the query are invisible
//   kWindow         optional; 0 = none
//
// Position:  int operator()(int b) const                    position of the first query of row b
// Score:     float operator()(float qk) const               what happens to a score before mask and softmax
// Epilogue:  template <int V> void operator()(Vec<float, V> out, int b, int h, int t, int d) const
//
//===----------------------------------------------------------------------===//
#pragma once

#include "attention/flash_tile.cuh"
#include "attention/head_view.cuh"
#include "device/base.cuh"
#include "device/block.cuh"
#include "device/index.cuh"
#include "device/shared.cuh"
#include "device/vec.cuh"
#include "device/warp.cuh"
#include "norm/online_softmax.cuh"
#include "shape.cuh"

namespace kiln {

/// Constants that follow from a Config.
template <class Config> struct SimtFlashShape {
  static constexpr int kHeadSize = Config::kHeadSize, kThreads = Config::kThreads;
  static constexpr int kQueries = Config::kTileQueries, kKeys = Config::kTileKeys;
  static constexpr bool kFits16 = kHeadSize % 16 == 0 && kKeys % 16 == 0 && kQueries % (kThreads / 16) == 0;
  static constexpr int kLanesX = kFits16 ? 16 : 8;
  static constexpr int kThreadsY = kThreads / kLanesX;
  static constexpr int kThreadQueries = kQueries / kThreadsY;
  static constexpr int kThreadKeys = kKeys / kLanesX;
  static constexpr int kThreadDims = kHeadSize / kLanesX;
  static constexpr int kOutputVec = widestVector(kThreadDims, 4);

  static constexpr int kVec = 4; // elements of an access to an operand
  static constexpr int kPitch = kHeadSize + 4, kWeightPitch = kKeys + 4;
  static constexpr int kTileVectors = kKeys * kHeadSize / kVec;
  static constexpr int kSlots = ceilDiv(kTileVectors, kThreads); // vectors of a key tile that a thread moves

  static_assert(kHeadSize % 8 == 0 && kHeadSize <= 256, "kHeadSize is a multiple of 8 up to 256");
  static_assert(kThreads % int(kWarpSize) == 0 && kThreads <= 1024, "a legal block");
  static_assert(kQueries % kThreadsY == 0, "kTileQueries is a multiple of kThreads / kLanesX");
  static_assert(kKeys % kLanesX == 0, "kTileKeys is a multiple of kLanesX");
};

template <class Config> struct SimtFlashStorage {
  using Shape = SimtFlashShape<Config>;
  alignas(16) float query[Shape::kQueries][Shape::kPitch];
  alignas(16) float key[Shape::kKeys][Shape::kPitch];
  alignas(16) float value[Shape::kKeys][Shape::kHeadSize];
  alignas(16) float weights[Shape::kQueries][Shape::kWeightPitch];
};

template <class Config>
constexpr SharedBytes kSimtFlashShared =
    sizeof(SimtFlashStorage<Config>) > kStaticSharedBytes ? SharedBytes{0, sizeof(SimtFlashStorage<Config>)}
                                                          : SharedBytes{sizeof(SimtFlashStorage<Config>), 0};

/// The work of one thread on its block's tile.
template <class Config, class T, class Score> struct SimtFlash {
  using Shape = SimtFlashShape<Config>;
  static constexpr int kThreadQueries = Shape::kThreadQueries, kThreadKeys = Shape::kThreadKeys;
  static constexpr int kThreadDims = Shape::kThreadDims, kLanesX = Shape::kLanesX;
  static constexpr int kVec = Shape::kVec, kOutputVec = Shape::kOutputVec;

  const HeadView<T> &query, &key, &value;
  const Score &score;
  SimtFlashStorage<Config> &shared;
  const FlashTile<Config> tile;
  const int laneX = int(threadIndex()) % kLanesX;
  const int threadQuery = int(threadIndex()) / kLanesX * kThreadQueries; // first of the thread, in the tile

  OnlineSoftmax softmax[kThreadQueries] = {}; // `sum` is the thread's share
  float scores[kThreadQueries][kThreadKeys] = {};
  float out[kThreadQueries][kThreadDims] = {};
  Packed<T, kVec> slots[Shape::kSlots] = {};

  /// Puts the tile of queries into shared memory; queries past the last repeat it.
  KILN_DEVICE void stageQueries() {
    constexpr int kVectors = Shape::kQueries * Shape::kHeadSize / kVec, kPerRow = Shape::kHeadSize / kVec;
    for (int i = int(threadIndex()); i < kVectors; i += Shape::kThreads) {
      const int q = i / kPerRow, d = i % kPerRow * kVec;
      storeShared(&shared.query[q][d],
                  load<kVec>(query.at(tile.b, tile.h, min(tile.firstQuery + q, tile.queries - 1)) + d));
    }
  }

  /// Row and element of the i-th vector that the thread moves of a tile of keys or values.
  KILN_DEVICE static int slot(int i) { return int(threadIndex()) + i * Shape::kThreads; }
  KILN_DEVICE static bool exists(int i) {
    return Shape::kTileVectors % Shape::kThreads == 0 || slot(i) < Shape::kTileVectors;
  }
  KILN_DEVICE static int slotRow(int i) { return slot(i) / (Shape::kHeadSize / kVec); }
  KILN_DEVICE static int slotDim(int i) { return slot(i) % (Shape::kHeadSize / kVec) * kVec; }

  /// Starts the loads of the tile of `operand` at `firstKey`; keys past the last visible one repeat that one.
  KILN_DEVICE void fetch(const HeadView<T> &operand, int firstKey) {
#pragma unroll
    for (int i = 0; i < Shape::kSlots; ++i)
      if (exists(i))
        slots[i] =
            loadPacked<kVec>(operand.at(tile.b, tile.h, min(firstKey + slotRow(i), tile.keyEnd - 1)) + slotDim(i));
  }

  template <int kPitch> KILN_DEVICE void commit(float (&rows)[Shape::kKeys][kPitch]) const {
#pragma unroll
    for (int i = 0; i < Shape::kSlots; ++i)
      if (exists(i))
        storeShared(&rows[slotRow(i)][slotDim(i)], slots[i].unpack());
  }

  /// scores = score(query tile · key tile^T).
  KILN_DEVICE void multiplyKeys() {
#pragma unroll
    for (int i = 0; i < kThreadQueries; ++i)
#pragma unroll
      for (int j = 0; j < kThreadKeys; ++j)
        scores[i][j] = 0;
#pragma unroll 4
    for (int d = 0; d < Shape::kHeadSize; d += kVec) {
      Vec<float, kVec> q[kThreadQueries];
#pragma unroll
      for (int i = 0; i < kThreadQueries; ++i)
        q[i] = load<kVec>(&shared.query[threadQuery + i][d]);
#pragma unroll
      for (int j = 0; j < kThreadKeys; ++j) {
        const Vec<float, kVec> k = load<kVec>(&shared.key[laneX + j * kLanesX][d]);
#pragma unroll
        for (int i = 0; i < kThreadQueries; ++i)
#pragma unroll
          for (int v = 0; v < kVec; ++v)
            scores[i][j] += q[i][v] * k[v];
      }
    }
#pragma unroll
    for (int i = 0; i < kThreadQueries; ++i)
#pragma unroll
      for (int j = 0; j < kThreadKeys; ++j)
        scores[i][j] = score(scores[i][j]);
  }

  /// Masks the scores of keys of the tile at `firstKey` that the queries do not see.
  KILN_DEVICE void mask(int firstKey) {
    const bool isWhole =
        firstKey + Shape::kKeys <= tile.visibleEnd(0) && firstKey >= tile.firstVisible(Shape::kQueries - 1);
    if (isWhole)
      return;
#pragma unroll
    for (int i = 0; i < kThreadQueries; ++i) {
      const int first = tile.firstVisible(threadQuery + i), end = tile.visibleEnd(threadQuery + i);
#pragma unroll
      for (int j = 0; j < kThreadKeys; ++j) {
        const int k = firstKey + laneX + j * kLanesX;
        scores[i][j] = k >= first && k < end ? scores[i][j] : -infinity();
      }
    }
  }

  /// Turns the scores into weights, in shared memory, and rescales sums that used an older maximum.
  KILN_DEVICE void weigh() {
#pragma unroll
    for (int i = 0; i < kThreadQueries; ++i) {
      float largest = scores[i][0];
#pragma unroll
      for (int j = 1; j < kThreadKeys; ++j)
        largest = fmax(largest, scores[i][j]);
      const float factor = softmax[i].raise(warpMax<kLanesX>(largest));
#pragma unroll
      for (int d = 0; d < kThreadDims; ++d)
        out[i][d] *= factor;
#pragma unroll
      for (int j = 0; j < kThreadKeys; ++j) {
        const float weight = softmax[i].weight(scores[i][j]);
        softmax[i].sum += weight;
        shared.weights[threadQuery + i][laneX + j * kLanesX] = weight;
      }
    }
  }

  /// First element, in the head, of the thread's out[·][d]: vectors of kOutputVec, kLanesX of them side by
  /// side.
  KILN_DEVICE int outputDim(int d) const { return (d / kOutputVec * kLanesX + laneX) * kOutputVec + d % kOutputVec; }

  /// out += weights · value tile.
  KILN_DEVICE void multiplyValues() {
#pragma unroll 2
    for (int k = 0; k < Shape::kKeys; k += kVec) {
      Vec<float, kVec> weight[kThreadQueries];
#pragma unroll
      for (int i = 0; i < kThreadQueries; ++i)
        weight[i] = load<kVec>(&shared.weights[threadQuery + i][k]);
#pragma unroll
      for (int v = 0; v < kVec; ++v)
#pragma unroll
        for (int d = 0; d < kThreadDims; d += kOutputVec) {
          const Vec<float, kOutputVec> x = load<kOutputVec>(&shared.value[k + v][outputDim(d)]);
#pragma unroll
          for (int i = 0; i < kThreadQueries; ++i)
#pragma unroll
            for (int o = 0; o < kOutputVec; ++o)
              out[i][d + o] += weight[i][v] * x[o];
        }
    }
  }

  /// All tiles of keys. At the top of the loop the tile's keys are in shared memory.
  KILN_DEVICE void run() {
    int firstKey = tile.firstKey();
    stageQueries();
    fetch(key, firstKey);
    commit(shared.key);
    syncThreads();
    for (; firstKey < tile.keyEnd; firstKey += Shape::kKeys) {
      const bool isLast = firstKey + Shape::kKeys >= tile.keyEnd;
      fetch(value, firstKey);
      multiplyKeys();
      commit(shared.value);
      mask(firstKey);
      weigh();
      syncThreads(); // values and weights are ready, the keys are no longer read
      if (!isLast)
        fetch(key, firstKey + Shape::kKeys);
      multiplyValues();
      if (!isLast)
        commit(shared.key);
      syncThreads(); // the next keys are ready, values and weights are no longer read
    }
  }

  template <class Epilogue> KILN_DEVICE void finish(const Epilogue &epilogue) const {
#pragma unroll
    for (int i = 0; i < kThreadQueries; ++i) {
      const float scale = softmaxScale(warpSum<kLanesX>(softmax[i].sum));
      const int t = tile.firstQuery + threadQuery + i;
      if (t >= tile.queries)
        continue;
#pragma unroll
      for (int d = 0; d < kThreadDims; d += kOutputVec) {
        Vec<float, kOutputVec> result;
#pragma unroll
        for (int o = 0; o < kOutputVec; ++o)
          result[o] = out[i][d + o] * scale;
        epilogue(result, tile.b, tile.h, t, outputDim(d));
      }
    }
  }
};

template <class Config> KILN_DEVICE SimtFlashStorage<Config> &simtFlashStorage() {
  if constexpr (kSimtFlashShared<Config>.dynamic > 0)
    return dynamicShared<SimtFlashStorage<Config>>();
  else
    return sharedStorage<SimtFlashStorage<Config>>();
}

/// The kernel's body: `queries` tokens and `keys` keys a head, keys ≥ 1.
template <class Config, class T, class Position, class Score, class Epilogue>
KILN_DEVICE void simtFlash(int queries, int keys, const HeadView<T> &query, const HeadView<T> &key,
                           const HeadView<T> &value, const Position &position, const Score &score,
                           const Epilogue &epilogue) {
  const auto tile = flashTileOf<FlashTile<Config>>(int(blockIndexZ()), int(blockIndexY()),
                                                   int(gridBlocksX() - 1 - blockIndexX()), queries, keys, position);
  SimtFlash<Config, T, Score> thread{query, key, value, score, simtFlashStorage<Config>(), tile};
  thread.run();
  thread.finish(epilogue);
}

} // namespace kiln
