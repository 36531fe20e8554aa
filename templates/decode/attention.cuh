//===- attention.cuh - attention of new tokens in a kernel that decodes all layers ----===//
//
// The heads of a cluster, one query a row: softmax(score(q · k)) v over the keys of the cache and the row's own. Keys
// are dealt out by their positions, 4 neighbours at a time: to the 8 blocks, kDeep times, then to as many slots as a
// block has warps, then again. A slot's keys are one warp's, another warp's for each query. 8 lanes read a key, and its
// value; they take kDeep keys at once, and keep an online softmax over more. Then lanes, slots and blocks combine what
// they have, each in a fixed order. So a row's bits depend on its position, not on other rows.
//
// The lanes that have the newest key write it into the cache, with its value, and read it there later.
//
// Where a block has one slot only, its warp gives what it has to all blocks at once.
//
// Registers: the first keys and values of the first kEarly queries of which a warp has any are loaded before the
// queries are known; 8 for each query and key.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "decode/products.cuh"
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
template <class Config, class T> struct DecodeAttention : DecodeProducts<Config, T> {
  using Shape = DecodeShape<Config, T>;
  using Products = DecodeProducts<Config, T>;
  using Products::cluster, Products::lane, Products::rank, Products::rows, Products::shared, Products::warp;
  using Chunk = Packed<T, 8>;
  static constexpr int kHeadSize = Shape::kHeadSize, kKeys = 4, kBlocks = Shape::kBlocks;
  static constexpr int kDeep = Config::kDeep, kClusterKeys = kKeys * kBlocks; // of all blocks, for one of kDeep
  static constexpr int kSlotKeys = kClusterKeys * kDeep, kTurnKeys = kSlotKeys * Shape::kWarps;
  static constexpr int kEarly = min(Shape::kQueries, 2);

  const DecodeShare share = Shape::share(cluster);

  using Products::Products;

  /// The position of a row's query, which is that of the newest key.
  KILN_DEVICE int position(int row) const { return shared.newest[row]; }

  KILN_DEVICE int queries() const { return rows * share.heads; }
  KILN_DEVICE int rowOf(int query) const { return Shape::kMostHeads == 1 ? query : query / share.heads; }
  KILN_DEVICE int headOf(int query) const { return Shape::kMostHeads == 1 ? 0 : query % share.heads; }

  /// The slot that this warp has of a query.
  KILN_DEVICE int slotOf(int query) const {
    constexpr int kStep = max(1, Shape::kWarps / Shape::kQueries);
    const int slot = (warp() - query * kStep) % Shape::kWarps;
    return slot < 0 ? slot + Shape::kWarps : slot;
  }
  /// The warp's first key of a query.
  KILN_DEVICE int firstKey(int query) const { return slotOf(query) * kSlotKeys + rank * kKeys; }
  /// The next query from `query` on of which this warp has keys.
  KILN_DEVICE int withKeys(int query) const {
    while (query < queries() && firstKey(query) > position(rowOf(query)))
      ++query;
    return query;
  }
  KILN_DEVICE int chunk() const { return lane() % 8 * 8; }
  /// How many blocks have keys of a row, and how many slots of a block.
  KILN_DEVICE static int blocksOf(int newest) { return min(newest / kKeys + 1, kBlocks); }
  KILN_DEVICE static int slotsOf(int newest, int rank) {
    return min((newest - rank * kKeys) / kSlotKeys + 1, Shape::kWarps);
  }

  /// Whether a block has several slots with keys of some row.
  KILN_DEVICE bool hasSlots() const {
    bool has = false;
    for (int row = 0; row < rows; ++row)
      has |= slotsOf(position(row), rank) > 1;
    return has;
  }

  /// Keys and their values, kClusterKeys apart.
  struct Loaded {
    Chunk keys[kDeep], values[kDeep];
  };

  Loaded early[kEarly]; ///< the first keys of the first queries

  KILN_DEVICE void loadEarly(const DecodeCache<T> &cache) {
    int query = withKeys(0);
#pragma unroll
    for (int i = 0; i < kEarly; ++i) {
      early[i] = {}; // otherwise registers keep what was loaded before
      if (query < queries()) {
        loadKeys(early[i], cache, query, firstKey(query));
        query = withKeys(query + 1);
      }
    }
  }

  /// Attends to the warp's keys for all queries, which are in shared memory. What they give goes to all blocks, or
  /// stays in shared memory where other slots have keys, too.
  template <class Score> KILN_DEVICE void attend(const DecodeCache<T> &cache, const Score &score) {
    int query = withKeys(0);
#pragma unroll
    for (int i = 0; i < kEarly; ++i)
      if (query < queries()) {
        attendQuery(cache, query, early[i], score);
        query = withKeys(query + 1);
      }
    for (; query < queries(); query = withKeys(query + 1)) {
      Loaded loaded;
      loadKeys(loaded, cache, query, firstKey(query));
      attendQuery(cache, query, loaded, score);
    }
  }

  /// Gives what several slots have of a query to all blocks of the cluster.
  KILN_DEVICE void sendSlots() const {
    for (int query = warp(); query < queries(); query += Shape::kWarps) {
      const int newest = position(rowOf(query));
      if (rank >= blocksOf(newest) || slotsOf(newest, rank) == 1)
        continue;
      const Combined all = combined(shared.slotTops, shared.slotParts, query, slotsOf(newest, rank));
      // Each half of the warp has the whole part, and gives it to half of the blocks.
#pragma unroll
      for (u32 i = 0; i < kBlocks / 2; ++i) {
        const u32 to = u32(lane()) / 16 * (kBlocks / 2) + i;
        storeAsync(inBlock(&shared.parts[rank][query].values[column()], to), all.values,
                   inBlock(&shared.haveParts, to));
      }
      sendTop(query, all.top);
    }
  }
  /// Bytes that a block gets.
  KILN_DEVICE u32 partBytes() const {
    u32 parts = 0;
    for (int row = 0; row < rows; ++row)
      parts += u32(share.heads * blocksOf(position(row)));
    return parts * u32((kHeadSize + 2) * sizeof(float));
  }

  /// Combines the parts of all blocks, and leaves the outputs in shared memory as a left operand.
  KILN_DEVICE void combineParts() const {
    for (int query = warp(); query < queries(); query += Shape::kWarps) {
      const Combined all = combined(shared.tops, shared.parts, query, blocksOf(position(rowOf(query))));
      if (lane() < 16)
        storeShared(&shared.attended[rowOf(query)][headOf(query) * kHeadSize + column()],
                    all.values * softmaxScale(all.top[1]));
    }
  }

private:
  /// The place of this lane's chunk of a key in the cache.
  KILN_DEVICE i64 placeOf(int query, int key) const {
    const i64 head = i64(rowOf(query)) * Shape::kHeads + share.firstHead + headOf(query);
    return (head * Config::kContext + key) * kHeadSize + chunk();
  }
  /// Loads the keys from `first` on that this lane reads, and their values, as far as they are in the cache.
  KILN_DEVICE void loadKeys(Loaded &loaded, const DecodeCache<T> &cache, int query, int first) const {
    const int newest = position(rowOf(query));
#pragma unroll
    for (int i = 0; i < kDeep; ++i) {
      const int key = first + i * kClusterKeys + lane() / 8;
      const i64 at = placeOf(query, key);
      loaded.keys[i] = loadPackedStreamingIf<8>(key < newest, cache.keys + at);
      loaded.values[i] = loadPackedStreamingIf<8>(key < newest, cache.values + at);
    }
  }

  /// Gives a query's maximum and sum of weights to all blocks.
  KILN_DEVICE void sendTop(int query, const Vec<float, 2> &top) const {
    if (const auto to = u32(lane()); to < u32(kBlocks))
      storeAsync(inBlock(&shared.tops[rank][query][0], to), top, inBlock(&shared.haveParts, to));
  }

  template <class Score>
  KILN_DEVICE void attendQuery(const DecodeCache<T> &cache, int query, Loaded &loaded, const Score &score) const {
    const int newest = position(rowOf(query));
    const auto q = load<8>(&shared.qkv[query][0][chunk()]);
    OnlineSoftmax softmax;
    Vec<float, 8> out{};
    for (int first = firstKey(query);;) {
      attendKeys(cache, query, first, newest, q, loaded, score, softmax, out);
      // All lanes of a warp take the same number of turns.
      first += kTurnKeys;
      if (first > newest)
        break;
      loadKeys(loaded, cache, query, first);
    }
    // The four groups of lanes.
#pragma unroll
    for (u32 distance = 8; distance < kWarpSize; distance *= 2) {
      softmax.sum += shuffleXor(softmax.sum, distance);
      out += out.map([&](float value) { return shuffleXor(value, distance); });
    }
    const Vec<float, 2> top{softmax.max, softmax.sum};
    if (slotsOf(newest, rank) == 1) {
      // Each group has the whole part, and gives it to two blocks.
#pragma unroll
      for (u32 i = 0; i < 2; ++i) {
        const u32 to = u32(lane()) / 8 * 2 + i;
        storeAsync(inBlock(&shared.parts[rank][query].values[chunk()], to), out, inBlock(&shared.haveParts, to));
      }
      sendTop(query, top);
      return;
    }
    if (lane() < 8)
      storeShared(&shared.slotParts[slotOf(query)][query].values[chunk()], out);
    if (lane() == 0)
      storeShared(&shared.slotTops[slotOf(query)][query][0], top);
  }

  /// Adds kDeep keys to a softmax. All lanes have the maximum of all groups.
  template <class Score>
  KILN_DEVICE void attendKeys(const DecodeCache<T> &cache, int query, int first, int newest, const Vec<float, 8> &q,
                              Loaded &loaded, const Score &score, OnlineSoftmax &softmax, Vec<float, 8> &out) const {
    float scores[kDeep], largest = -infinity();
#pragma unroll
    for (int i = 0; i < kDeep; ++i) {
      const int key = first + i * kClusterKeys + lane() / 8;
      if (key == newest)
        takeNewest(cache, query, key, loaded.keys[i], loaded.values[i]);
      const float product = warpSum<8>((q * loaded.keys[i].unpack()).sum());
      scores[i] = key <= newest ? score(product) : -infinity();
      largest = fmax(largest, scores[i]);
    }
#pragma unroll
    for (u32 distance = 8; distance < kWarpSize; distance *= 2)
      largest = fmax(largest, shuffleXor(largest, distance));
    out = out * softmax.raise(largest);
#pragma unroll
    for (int i = 0; i < kDeep; ++i) {
      const float weight = softmax.weight(scores[i]);
      softmax.sum += weight;
      out = out + loaded.values[i].unpack() * weight;
    }
  }

  /// The newest key and value come from the products; the cache gets them.
  KILN_DEVICE void takeNewest(const DecodeCache<T> &cache, int query, int key, Chunk &k, Chunk &v) const {
    const i64 at = placeOf(query, key);
    k = loadPacked<8>(&shared.qkv[query][1][chunk()]);
    v = loadPacked<8>(&shared.qkv[query][2][chunk()]);
    store(cache.keys + at, k.unpack());
    store(cache.values + at, v.unpack());
  }

  /// The first of the four elements of an output that a lane has in Combined.
  KILN_DEVICE int column() const { return lane() % 16 * 4; }
  /// Four elements of a query's output, of some parts, and the maximum and the sum of all weights.
  struct Combined {
    Vec<float, 4> values;
    Vec<float, 2> top;
  };
  /// Lanes 0 to 15 add up the even parts, the others the odd ones; then all have the sum.
  template <int kParts, int kQueries>
  KILN_DEVICE Combined combined(const Vec<float, 2> (&tops)[kParts][kQueries],
                                const DecodePart<kHeadSize> (&parts)[kParts][kQueries], int query, int count) const {
    static_assert(kParts <= int(kWarpSize), "a lane for each part");
    float largest = -infinity();
#pragma unroll 4
    for (int part = 0; part < count; ++part)
      largest = fmax(largest, tops[part][query][0]);
    // One exponential a lane, for its part.
    const Vec<float, 2> own = load<2>(&tops[min(lane(), count - 1)][query][0]);
    const float factor = lane() < count ? exp(own[0] - softmaxShift(largest)) : 0, weight = own[1] * factor;
    Combined all{{}, {largest, 0.0f}};
#pragma unroll 4
    for (int i = 0; i < count; i += 2) {
      const int part = i + lane() / 16;
      const float of = shuffle(factor, u32(part)), sum = shuffle(weight, u32(part));
      all.values = all.values + load<4>(&parts[min(part, count - 1)][query].values[column()]) * of;
      all.top[1] += sum;
    }
    all.top[1] += shuffleXor(all.top[1], 16);
    all.values = all.values + all.values.map([](float value) { return shuffleXor(value, 16); });
    return all;
  }
};

} // namespace kiln
