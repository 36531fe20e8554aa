//===- attention.cuh - attention of new tokens in a kernel that decodes all layers ----===//
//
// The heads of a cluster, one query a row: softmax(score(q · k)) v over the keys of the cache and the row's own. Keys
// are dealt out by their positions, 4 neighbours to a warp at a time: first to the 8 blocks, then to the warps, then
// again. 8 lanes read a key, and its value, and keep an online softmax; then lanes, warps and blocks combine what they
// have, each in a fixed order. So a row's bits depend on its position, not on other rows.
//
// The lanes that have the newest key write it into the cache, with its value, and read it there later.
//
// Registers: keys and values are loaded kDeep turns ahead, the first ones of up to kEarly queries before the queries
// are known; 8 for each query and turn.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "decode/shape.cuh"
#include "device/base.cuh"
#include "device/cluster.cuh"
#include "device/index.cuh"
#include "device/math.cuh"
#include "device/vec.cuh"
#include "device/warp.cuh"
#include "norm/online_softmax.cuh"

namespace kiln {

/// The cache of a layer: [row, kHeads, kContext, 64] each.
template <class T> struct DecodeCache {
  T *keys, *values;
};

/// A warp's part in the attention of a layer. Query i is that of head i % heads, of those of the cluster, for row
/// i / heads.
template <class Config, class T> struct DecodeAttention {
  using Shape = DecodeShape<Config, T>;
  using Chunk = Packed<T, 8>;
  static constexpr int kHeadSize = Shape::kHeadSize, kKeys = 4, kBlocks = Shape::kBlocks;
  static constexpr int kBlockKeys = kKeys * kBlocks; // of one warp of each block
  static constexpr int kTurnKeys = kBlockKeys * Shape::kWarps, kEarly = min(Shape::kQueries, 4);
  static constexpr int kDeep = Config::kDeep;

  DecodeStorage<Config, T> &shared;
  const DecodeShare share;
  const int rows, rank;

  /// The position of a row's query, which is that of the newest key.
  KILN_DEVICE int position(int row) const { return shared.newest[row]; }

  KILN_DEVICE int queries() const { return rows * share.heads; }
  KILN_DEVICE int rowOf(int query) const { return Shape::kMostHeads == 1 ? query : query / share.heads; }
  KILN_DEVICE int headOf(int query) const { return Shape::kMostHeads == 1 ? 0 : query % share.heads; }

  /// The first key of this lane.
  KILN_DEVICE int firstKey() const { return int(warpIndex()) * kBlockKeys + rank * kKeys + int(laneIndex()) / 8; }
  KILN_DEVICE static int chunk() { return int(laneIndex()) % 8 * 8; }
  /// How many blocks have keys of a row, and how many warps of a block.
  KILN_DEVICE static int blocksOf(int newest) { return min(newest / kKeys + 1, kBlocks); }
  KILN_DEVICE static int warpsOf(int newest, int rank) {
    return min((newest - rank * kKeys) / kBlockKeys + 1, Shape::kWarps);
  }

  /// A key and its value, of kDeep turns that follow each other.
  struct Loaded {
    Chunk keys[kDeep], values[kDeep];
  };

  /// Loads the first keys of the first queries.
  KILN_DEVICE void loadEarly(const DecodeCache<T> &cache, Loaded (&early)[kEarly]) const {
#pragma unroll
    for (int query = 0; query < kEarly; ++query)
      if (query < queries())
        loadFirst(early[query], cache, query);
  }

  /// Attends to the warp's keys for all queries, which are in shared memory, and leaves there what they give.
  template <class Score>
  KILN_DEVICE void attend(const DecodeCache<T> &cache, const Loaded (&early)[kEarly], const Score &score) const {
#pragma unroll
    for (int query = 0; query < Shape::kQueries; ++query) {
      if (query >= queries())
        continue;
      Loaded loaded;
      if (query < kEarly)
        loaded = early[query < kEarly ? query : 0];
      else
        loadFirst(loaded, cache, query);
      attendQuery(cache, query, loaded, score);
    }
  }

  /// Gives the block's part of every query to all blocks of the cluster.
  KILN_DEVICE void sendParts() const {
    for (int item = int(warpIndex()); item < queries() * kBlocks; item += Shape::kWarps) {
      const int query = item / kBlocks, newest = position(rowOf(query));
      const u32 to = u32(item) % kBlocks;
      if (rank >= blocksOf(newest))
        continue;
      const Combined all = combined(shared.warpTops, shared.warpParts, query, warpsOf(newest, rank));
      const auto barrier = inBlock(&shared.haveParts, to);
      storeAsync(inBlock(&shared.parts[rank][query].values[2 * int(laneIndex())], to), all.values, barrier);
      if (laneIndex() == 0)
        storeAsync(inBlock(&shared.tops[rank][query][0], to), all.top, barrier);
    }
  }
  /// Bytes that a block gets.
  KILN_DEVICE u32 bytes() const {
    u32 parts = 0;
    for (int row = 0; row < rows; ++row)
      parts += u32(share.heads * blocksOf(position(row)));
    return parts * u32((kHeadSize + 2) * sizeof(float));
  }

  /// Combines the parts of all blocks, and leaves the outputs in shared memory as a left operand.
  KILN_DEVICE void combine() const {
    for (int query = int(warpIndex()); query < queries(); query += Shape::kWarps) {
      const Combined all = combined(shared.tops, shared.parts, query, blocksOf(position(rowOf(query))));
      storeShared(&shared.attended[rowOf(query)][headOf(query) * kHeadSize + 2 * int(laneIndex())],
                  all.values * softmaxScale(all.top[1]));
    }
  }

private:
  /// The place of this lane's chunk of a key in the cache.
  KILN_DEVICE i64 placeOf(int query, int key) const {
    const i64 head = i64(rowOf(query)) * Shape::kHeads + share.firstHead + headOf(query);
    return (head * Config::kContext + key) * kHeadSize + chunk();
  }
  /// Loads a key and its value, if they are in the cache.
  KILN_DEVICE void loadKey(Loaded &loaded, int turn, const DecodeCache<T> &cache, int query, int key,
                           int newest) const {
    const i64 at = placeOf(query, key);
    loaded.keys[turn] = loadPackedStreamingIf<8>(key < newest, cache.keys + at);
    loaded.values[turn] = loadPackedStreamingIf<8>(key < newest, cache.values + at);
  }
  KILN_DEVICE void loadFirst(Loaded &loaded, const DecodeCache<T> &cache, int query) const {
#pragma unroll
    for (int turn = 0; turn < kDeep; ++turn)
      loadKey(loaded, turn, cache, query, firstKey() + turn * kTurnKeys, position(rowOf(query)));
  }

  template <class Score>
  KILN_DEVICE void attendQuery(const DecodeCache<T> &cache, int query, Loaded &loaded, const Score &score) const {
    const int newest = position(rowOf(query));
    const auto q = load<8>(&shared.qkv[query][0][chunk()]);
    OnlineSoftmax softmax;
    Vec<float, 8> out{};
    // All lanes of a warp take the same number of turns.
    const int group = int(laneIndex()) / 8;
    for (int first = firstKey() - group; first <= newest; first += kDeep * kTurnKeys)
#pragma unroll
      for (int turn = 0; turn < kDeep; ++turn) {
        const int key = first + turn * kTurnKeys + group;
        if (key - group > newest)
          break;
        Vec<float, 8> k = loaded.keys[turn].unpack(), v = loaded.values[turn].unpack();
        if (first + (turn + kDeep) * kTurnKeys <= newest)
          loadKey(loaded, turn, cache, query, key + kDeep * kTurnKeys, newest);
        if (key == newest)
          takeNewest(cache, query, key, k, v);
        const float product = warpSum<8>((q * k).sum());
        const float s = key <= newest ? score(product) : -infinity();
        const float factor = softmax.raise(s), weight = softmax.weight(s);
        softmax.sum += weight;
        out = out * factor + v * weight;
      }
    if (firstKey() - group > newest)
      return;
    // The four groups of lanes.
    out = out * softmax.raise(largestOfGroups(softmax.max));
#pragma unroll
    for (u32 distance = 8; distance < kWarpSize; distance *= 2) {
      softmax.sum += shuffleXor(softmax.sum, distance);
      out += shuffled(out, distance);
    }
    if (laneIndex() < 8)
      storeShared(&shared.warpParts[warpIndex()][query].values[chunk()], out);
    if (laneIndex() == 0)
      storeShared(&shared.warpTops[warpIndex()][query][0], Vec<float, 2>{softmax.max, softmax.sum});
  }

  /// The newest key and value come from the products; the cache gets them.
  KILN_DEVICE void takeNewest(const DecodeCache<T> &cache, int query, int key, Vec<float, 8> &k,
                              Vec<float, 8> &v) const {
    const i64 at = placeOf(query, key);
    k = load<8>(&shared.qkv[query][1][chunk()]);
    v = load<8>(&shared.qkv[query][2][chunk()]);
    store(cache.keys + at, k);
    store(cache.values + at, v);
  }

  KILN_DEVICE static float largestOfGroups(float value) {
#pragma unroll
    for (u32 distance = 8; distance < kWarpSize; distance *= 2)
      value = fmax(value, shuffleXor(value, distance));
    return value;
  }
  KILN_DEVICE static Vec<float, 8> shuffled(const Vec<float, 8> &values, u32 distance) {
    return values.map([&](float value) { return shuffleXor(value, distance); });
  }

  /// Two neighbouring elements of a query's output, of some parts, and the maximum and the sum of all weights.
  struct Combined {
    Vec<float, 2> values, top;
  };
  /// Lane i has elements 2i and 2i + 1. All lanes weigh all parts, which takes less time than to tell each other.
  template <int kParts, int kQueries>
  KILN_DEVICE static Combined combined(const Vec<float, 2> (&tops)[kParts][kQueries],
                                       const DecodePart<kHeadSize> (&parts)[kParts][kQueries], int query, int count) {
    Combined all{{}, {-infinity(), 0.0f}};
#pragma unroll 4
    for (int part = 0; part < count; ++part)
      all.top[0] = fmax(all.top[0], tops[part][query][0]);
#pragma unroll 4
    for (int part = 0; part < count; ++part) {
      const Vec<float, 2> top = load<2>(&tops[part][query][0]);
      const float factor = exp(top[0] - softmaxShift(all.top[0]));
      all.top[1] += top[1] * factor;
      all.values += load<2>(&parts[part][query].values[2 * int(laneIndex())]) * factor;
    }
    return all;
  }
};

} // namespace kiln
