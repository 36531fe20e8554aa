//===- naive_flash.cuh - flash attention in its simplest form -------------===//
//
// out[b, h, t, :] = Σ_key softmax(score(q[b, h, t, :] · k[b, h, key, :])) v[b, h, key, :] over the visible keys: the
// same as attention/simt_flash.cuh, one rung of the ladder below it. The method is the same (FlashAttention-2: a block
// keeps a tile of queries, walks over tiles of keys, and divides by the sum once, at the end; Dao, 2023), but square
// tiles of 16, a thread a score, no shuffles, no register tiles, no loads ahead: the largest score and the sum of a
// query come from shared memory, where every thread of the query computes them for itself.
//
// Launch: grid (ceildiv(queries, kTile), heads, batch), block kTile².
//
// Which thread holds what: thread (i, j) has the score of query i and key j of the tiles, and elements j, j + kTile, …
// of query i's output.
//
// Shared memory: 4 · (3 · kTile · kHeadSize + kTile²) bytes, static. Registers: kHeadSize / kTile for the output, and
// about 40.
//
// Config:
//   kHeadSize    up to 240 with tiles of 16
//   kTile        queries and keys of a tile, 16 or 32
//   kCausal      keys behind the query are invisible
//   kWindow      optional: only the last kWindow keys are visible; 0 = none
//
// Position, Score, Epilogue: as for attention/simt_flash.cuh.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "attention/flash_tile.cuh"
#include "attention/head_view.cuh"
#include "device/base.cuh"
#include "device/block.cuh"
#include "device/index.cuh"
#include "device/numeric.cuh"
#include "device/shared.cuh"
#include "device/vec.cuh"
#include "norm/online_softmax.cuh"
#include "shape.cuh"

namespace kiln {

template <class Config> struct NaiveFlashStorage {
  float query[Config::kTile][Config::kHeadSize];
  float key[Config::kTile][Config::kHeadSize];
  float value[Config::kTile][Config::kHeadSize];
  float scores[Config::kTile][Config::kTile];

  static_assert(4 * (3 * Config::kHeadSize + Config::kTile) * Config::kTile <= kStaticSharedBytes,
                "the tiles fit in static shared memory");
};

/// The work of one thread on its block's tile.
template <class Config, class T, class Score> struct NaiveFlash {
  static constexpr int kTile = Config::kTile, kHeadSize = Config::kHeadSize;
  using Tile = FlashTile<Config, kTile, kTile>;

  const HeadView<T> &query, &key, &value;
  const Score &score;
  NaiveFlashStorage<Config> &shared;
  const Tile tile;
  const int i = int(threadIndex()) / kTile, j = int(threadIndex()) % kTile;

  OnlineSoftmax softmax = {};
  float out[ceilDiv(kHeadSize, kTile)] = {};

  /// Calls body(d, slot) for every element of the output that is the thread's.
  template <class Body> KILN_DEVICE void forEachElement(Body body) const {
#pragma unroll
    for (int slot = 0; slot < ceilDiv(kHeadSize, kTile); ++slot)
      if (j + slot * kTile < kHeadSize)
        body(j + slot * kTile, slot);
  }

  /// Puts row i of a tile into shared memory.
  KILN_DEVICE void stage(float (&rows)[kTile][kHeadSize], const T *row) const {
    for (int d = j; d < kHeadSize; d += kTile)
      rows[i][d] = toFloat(row[d]);
  }

  /// Puts the tile of queries into shared memory; queries past the last repeat it.
  KILN_DEVICE void stageQueries() const {
    stage(shared.query, query.at(tile.b, tile.h, min(tile.firstQuery + i, tile.queries - 1)));
  }

  /// Accumulates the tile of keys at `firstKey`; keys past the block's last repeat that one.
  KILN_DEVICE void add(int firstKey) {
    const int k = min(firstKey + i, tile.keyEnd - 1);
    stage(shared.key, key.at(tile.b, tile.h, k));
    stage(shared.value, value.at(tile.b, tile.h, k));
    syncThreads();
    float product = 0;
    for (int d = 0; d < kHeadSize; ++d)
      product += shared.query[i][d] * shared.key[j][d];
    const bool isVisible = firstKey + j >= tile.firstVisible(i) && firstKey + j < tile.visibleEnd(i);
    shared.scores[i][j] = isVisible ? score(product) : -infinity();
    syncThreads();
    float largest = -infinity();
    for (int k = 0; k < kTile; ++k)
      largest = fmax(largest, shared.scores[i][k]);
    const float factor = softmax.raise(largest);
    forEachElement([&](int, int slot) { out[slot] *= factor; });
    for (int k = 0; k < kTile; ++k) {
      const float weight = softmax.weight(shared.scores[i][k]);
      softmax.sum += weight;
      forEachElement([&](int d, int slot) { out[slot] += weight * shared.value[k][d]; });
    }
    syncThreads();
  }
};

template <class Config> constexpr SharedBytes kNaiveFlashShared = {sizeof(NaiveFlashStorage<Config>), 0};

/// The kernel's body: `queries` tokens and `keys` keys a head, keys ≥ 1.
template <class Config, class T, class Position, class Score, class Epilogue>
KILN_DEVICE void naiveFlash(int queries, int keys, const HeadView<T> &query, const HeadView<T> &key,
                            const HeadView<T> &value, const Position &position, const Score &score,
                            const Epilogue &epilogue) {
  using Flash = NaiveFlash<Config, T, Score>;
  const auto tile = flashTileOf<typename Flash::Tile>(int(blockIndexZ()), int(blockIndexY()), int(blockIndexX()),
                                                      queries, keys, position);
  Flash thread{query, key, value, score, sharedStorage<NaiveFlashStorage<Config>>(), tile};
  thread.stageQueries();
  for (int firstKey = tile.firstKey(); firstKey < tile.keyEnd; firstKey += Flash::kTile)
    thread.add(firstKey);
  const int t = tile.firstQuery + thread.i;
  if (t >= queries)
    return;
  const float scale = softmaxScale(thread.softmax.sum);
  thread.forEachElement(
      [&](int d, int slot) { epilogue(Vec<float, 1>{thread.out[slot] * scale}, tile.b, tile.h, t, d); });
}

} // namespace kiln
