//===- attention.cuh - attention of new tokens in a kernel that decodes all layers ----===//
//
// The heads of a cluster, one query a row: softmax(score(q · k)) v over the keys of the cache and the row's own. Keys
// of the cache are dealt out by their positions, 4 neighbours at a time: to the blocks, kDeep times, then to as many
// slots as a block has warps, then again. A slot's keys are one warp's, another warp's for each query. 8 lanes read a
// key, and its value; they take kDeep keys at once, and keep an online softmax over more. Then lanes, slots and blocks
// combine what they have, each in a fixed order. So a row's bits depend on its position, not on other rows.
//
// Where a row has kDirect slots or fewer, warps give what they have to all blocks at once; else the slots of a block
// are combined first. Each block adds the row's own key and value, which all of them have, when it combines what it
// gets: so loads of the cache wait for nothing that is computed in this layer.
//
// Registers: the first keys and values of the first kEarly queries of which a warp has any are loaded before the
// queries are known; 8 for each query and key. Those that come later are asked for in L2 then.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "decode/products.cuh"
#include "decode/shape.cuh"
#include "device/async_copy.cuh"
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
  using Products::cluster, Products::lane, Products::rank, Products::rows, Products::share, Products::shared,
      Products::warp;
  using Chunk = Packed<T, 8>;
  static constexpr int kHeadSize = Shape::kHeadSize, kKeys = 4, kBlocks = Shape::kBlocks;
  static constexpr int kDeep = Config::kDeep, kClusterKeys = kKeys * kBlocks; // of all blocks, for one of kDeep
  static constexpr int kSlotKeys = kClusterKeys * kDeep, kTurnKeys = kSlotKeys * Shape::kWarps;
  static constexpr int kDirect = Shape::kDirect, kEarly = min(Shape::kQueries, 2);
  static_assert(2 * kKeys * kDeep <= int(kWarpSize), "a lane for each line of the keys of a turn, and of their values");

  using Products::Products;

  /// The position of a row's query, which is how many keys the cache has of the row.
  KILN_DEVICE int position(int row) const { return shared.newest[row]; }

  KILN_DEVICE int queries() const { return Shape::kMostHeads == 1 ? rows : rows * share.heads; }
  KILN_DEVICE int rowOf(int query) const { return Shape::kMostHeads == 1 ? query : query / share.heads; }
  KILN_DEVICE int headOf(int query) const { return Shape::kMostHeads == 1 ? 0 : query % share.heads; }

  /// The slot that this warp has of a query.
  KILN_DEVICE int slotOf(int query) const {
    if constexpr (Shape::kQueries == 1)
      return warp();
    constexpr int kStep = max(1, Shape::kWarps / Shape::kQueries);
    const int slot = (warp() - query * kStep) % Shape::kWarps;
    return slot < 0 ? slot + Shape::kWarps : slot;
  }
  /// The warp's first key of a query.
  KILN_DEVICE int firstKey(int query) const { return slotOf(query) * kSlotKeys + rank * kKeys; }
  /// The next query from `query` on of which this warp has keys.
  KILN_DEVICE int withKeys(int query) const {
    while (query < queries() && firstKey(query) >= position(rowOf(query)))
      ++query;
    return query;
  }
  KILN_DEVICE int chunk() const { return lane() % 8 * 8; }

  /// Of a row with so many keys: whether warps give what they have to all blocks; how many parts these then get, part
  /// slot · kBlocks + rank from each; how many slots a block has.
  KILN_DEVICE static bool isDirect(int keys) { return keys <= kDirect * kSlotKeys; }
  KILN_DEVICE static int partsOf(int keys) {
    const int before = (keys - 1) / kSlotKeys * kSlotKeys, last = min((keys - 1 - before) / kKeys, kBlocks - 1);
    return keys == 0 ? 0 : isDirect(keys) ? before / kSlotKeys * kBlocks + last + 1 : kBlocks;
  }
  KILN_DEVICE static int slotsOf(int keys, int rank) {
    return min((keys - 1 - rank * kKeys) / kSlotKeys + 1, Shape::kWarps);
  }

  /// Whether blocks combine the slots of some row.
  KILN_DEVICE bool hasSlots() const {
    bool has = false;
    for (int row = 0; row < rows; ++row)
      has |= !isDirect(position(row));
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
        prefetchKeys(cache, query, firstKey(query) + kTurnKeys);
        query = withKeys(query + 1);
      }
    }
    if constexpr (Shape::kQueries > kEarly)
      for (; query < queries(); query = withKeys(query + 1))
        prefetchKeys(cache, query, firstKey(query));
  }

  /// Attends to the warp's keys for all queries, which are in shared memory. What they give goes to all blocks, or
  /// stays in shared memory where slots are combined.
  template <class Score> KILN_DEVICE void attend(const DecodeCache<T> &cache, const Score &score) {
    int query = withKeys(0);
#pragma unroll
    for (int i = 0; i < kEarly; ++i)
      if (query < queries()) {
        attendQuery(cache, query, early[i], score);
        query = withKeys(query + 1);
      }
    if constexpr (Shape::kQueries > kEarly)
      for (; query < queries(); query = withKeys(query + 1)) {
        Loaded loaded;
        loadKeys(loaded, cache, query, firstKey(query));
        attendQuery(cache, query, loaded, score);
      }
  }

  /// Gives what several slots have of a query to all blocks of the cluster.
  KILN_DEVICE void sendSlots() const {
    for (int query = warp(); query < queries(); query += Shape::kWarps) {
      const int keys = position(rowOf(query));
      if (isDirect(keys))
        continue;
      const Combined all = combined(shared.slotTops, shared.slotParts, query, slotsOf(keys, rank), {});
#pragma unroll
      for (u32 to = 0; to < kBlocks; ++to)
        storeAsync(inBlock(&shared.parts[rank][query].values[2 * lane()], to), all.values,
                   inBlock(&shared.haveParts, to));
      sendTop(query, rank, all.top);
    }
  }
  /// Bytes that a block gets.
  KILN_DEVICE u32 partBytes() const {
    u32 parts = 0;
    for (int row = 0; row < rows; ++row)
      parts += u32(queries() / rows * partsOf(position(row)));
    return parts * u32((kHeadSize + 2) * sizeof(float));
  }

  /// The first query whose parts this warp combines, and then every kWarps-th: the last warps are the first to do so,
  /// since they are the last to have keys.
  KILN_DEVICE int firstCombined() const { return Shape::kWarps - 1 - warp(); }

  /// The row's own key and value, of which a lane has two elements, as a part: its maximum is the score.
  struct OwnPart {
    float score = -infinity();
    Vec<float, 2> value = {};
  };
  /// The part of a query's own key, which also goes into the cache.
  template <class Score>
  KILN_DEVICE OwnPart ownPart(const DecodeCache<T> &cache, int query, const Score &score) const {
    OwnPart own;
    if (query >= queries())
      return own;
    const auto &qkv = shared.qkv[query];
    const int two = 2 * lane();
    const Vec<float, 2> q = load<2>(&qkv[0][two]), k = load<2>(&qkv[1][two]);
    own.value = load<2>(&qkv[2][two]);
    if (rank == 0) {
      const i64 at = keyOf(query, position(rowOf(query))) + two;
      store(cache.keys + at, k);
      store(cache.values + at, own.value);
    }
    own.score = score(warpSum((q * k).sum()));
    return own;
  }

  /// Combines the parts of all blocks, and leaves the outputs in shared memory as a left operand. `own` is of the first
  /// query that this warp combines.
  template <class Score>
  KILN_DEVICE void combineParts(const DecodeCache<T> &cache, const Score &score, OwnPart own) const {
    for (int query = firstCombined(); query < queries(); query += Shape::kWarps) {
      if (query != firstCombined())
        own = ownPart(cache, query, score);
      const Combined all = combined(shared.tops, shared.parts, query, partsOf(position(rowOf(query))), own);
      storeShared(&shared.attended[rowOf(query)][headOf(query) * kHeadSize + 2 * lane()],
                  all.values * reciprocal(all.top[1])); // which the row's own key makes positive
    }
  }

private:
  /// The place of a key in the cache.
  KILN_DEVICE i64 keyOf(int query, int key) const {
    const i64 head = i64(rowOf(query)) * Shape::kHeads + share.firstHead + headOf(query);
    return (head * Config::kContext + key) * kHeadSize;
  }
  /// Loads the keys from `first` on that this lane reads, and their values.
  KILN_DEVICE void loadKeys(Loaded &loaded, const DecodeCache<T> &cache, int query, int first) const {
    const int keys = position(rowOf(query)), key = first + lane() / 8;
    const i64 at = keyOf(query, key) + chunk();
#pragma unroll
    for (int i = 0; i < kDeep; ++i) {
      const bool isKey = key + i * kClusterKeys < keys;
      loaded.keys[i] = loadPackedStreamingIf<8>(isKey, cache.keys + at + i * kClusterKeys * kHeadSize);
      loaded.values[i] = loadPackedStreamingIf<8>(isKey, cache.values + at + i * kClusterKeys * kHeadSize);
    }
  }

  /// Asks for the keys of this warp from `first` on in L2, and for their values: each lane for lines of the cache.
  KILN_DEVICE void prefetchKeys(const DecodeCache<T> &cache, int query, int first) const {
    constexpr int kTurnLines = kKeys * kDeep; // of keys, and as many of values
    const int keys = position(rowOf(query)), line = lane() % kTurnLines;
    if constexpr (kTurnKeys < Config::kContext || Shape::kQueries > kEarly)
      for (; first < keys; first += kTurnKeys)
        if (const int key = first + line / kKeys * kClusterKeys + line % kKeys; key < keys && lane() < 2 * kTurnLines)
          prefetchLine((lane() < kTurnLines ? cache.keys : cache.values) + keyOf(query, key));
  }

  /// Gives a part's maximum and sum of weights to all blocks.
  KILN_DEVICE void sendTop(int query, int part, const Vec<float, 2> &top) const {
    if (const auto to = u32(lane()); to < u32(kBlocks))
      storeAsync(inBlock(&shared.tops[part][query][0], to), top, inBlock(&shared.haveParts, to));
  }

  template <class Score>
  KILN_DEVICE void attendQuery(const DecodeCache<T> &cache, int query, Loaded &loaded, const Score &score) const {
    const int keys = position(rowOf(query)), slot = slotOf(query);
    const auto q = load<8>(&shared.qkv[query][0][chunk()]);
    OnlineSoftmax softmax;
    Vec<float, 8> out{};
    for (int first = firstKey(query);;) {
      attendKeys(first, keys, q, loaded, score, softmax, out);
      // All lanes of a warp take the same number of turns.
      first += kTurnKeys;
      if (first >= keys)
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
    if (isDirect(keys)) {
      // Each group has the whole part, and gives it to two blocks.
      const int part = slot * kBlocks + rank;
#pragma unroll
      for (u32 i = 0; i < 2; ++i) {
        const u32 to = u32(lane()) / 8 * 2 + i;
        if (kBlocks == 8 || to < u32(kBlocks))
          storeAsync(inBlock(&shared.parts[part][query].values[chunk()], to), out, inBlock(&shared.haveParts, to));
      }
      sendTop(query, part, top);
      return;
    }
    if (lane() < 8)
      storeShared(&shared.slotParts[slot][query].values[chunk()], out);
    if (lane() == 0)
      storeShared(&shared.slotTops[slot][query][0], top);
  }

  /// Adds kDeep keys to a softmax. All lanes have the maximum of all groups.
  template <class Score>
  KILN_DEVICE void attendKeys(int first, int keys, const Vec<float, 8> &q, const Loaded &loaded, const Score &score,
                              OnlineSoftmax &softmax, Vec<float, 8> &out) const {
    float scores[kDeep], largest = -infinity();
#pragma unroll
    for (int i = 0; i < kDeep; ++i)
      scores[i] = (q * loaded.keys[i].unpack()).sum();
#pragma unroll
    for (u32 distance = 1; distance < 8; distance *= 2)
#pragma unroll
      for (int i = 0; i < kDeep; ++i)
        scores[i] += shuffleXor(scores[i], distance);
#pragma unroll
    for (int i = 0; i < kDeep; ++i) {
      scores[i] = first + i * kClusterKeys + lane() / 8 < keys ? score(scores[i]) : -infinity();
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

  /// Two elements of a query's output, of some parts, and the maximum and the sum of all weights.
  struct Combined {
    Vec<float, 2> values;
    Vec<float, 2> top;
  };
  /// The first `count` parts and one more, in the order of a tree for the sum of weights and one after the other for
  /// the values.
  template <int kParts, int kQueries>
  KILN_DEVICE Combined combined(const Vec<float, 2> (&tops)[kParts][kQueries],
                                const DecodePart<kHeadSize> (&parts)[kParts][kQueries], int query, int count,
                                const OwnPart &own) const {
    static_assert(kParts <= int(kWarpSize), "a lane for each part");
    constexpr int kAtOnce = min(kParts, 8); // loads under way
    Vec<float, 2> top{-infinity(), 0.0f};
    if (lane() < count)
      top = load<2>(&tops[lane()][query][0]);
    const float largest = fmax(warpMaxByOrder(top[0]), own.score), shift = softmaxShift(largest);
    const float factor = exp(top[0] - shift), weight = exp(own.score - shift);
    Combined all{own.value * weight, {largest, warpSum(top[1] * factor) + weight}};
#pragma unroll 1
    for (int first = 0; first < count; first += kAtOnce) {
      Vec<float, 2> values[kAtOnce];
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        values[i] = {};
        if (first + i < count)
          values[i] = load<2>(&parts[first + i][query].values[2 * lane()]);
      }
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i)
        all.values = all.values + values[i] * shuffle(factor, u32(first + i));
    }
    return all;
  }
};

} // namespace kiln
