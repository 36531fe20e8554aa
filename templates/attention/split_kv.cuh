//===- split_kv.cuh - attention of one query over a cache, in parts of the keys ---===//
//
// out[b, h, t, :] = Σ_key softmax(score(q[b, h, t, :] · k[b, h, key, :])) v[b, h, key, :] over keys 0 ..
// position(b) + t inclusive, one query a sequence (decode) or a few that follow each other (verification), fp32
// arithmetic. Every query is a row of its own. This is the work of a warp, and how parts become
// a result; simt_split_kv.cuh and cluster_split_kv.cuh differ in how blocks exchange parts.
//
// Method: split-KV decoding (FlashDecoding; Dao, Haziza, Massa, Sizov, 2023). The visible keys of a head are cut into
// rounds of kRoundKeys consecutive keys, and the rounds dealt out to up to 32 parts: part p has rounds p, p + 32, … A
// warp computes a part, and then the next one that it has, as an online softmax over the part's rounds. At the end one
// warp combines all parts of the head, each of its lanes weighing one of them.
//
// A row's bits depend on the element type, the head size, the window and the row's position, and on nothing else: not
// on the batch, nor on which warp of which block computes a part, nor on how many rounds it loads at once. So kSplits,
// kWarps and kStages may be chosen for the number of rows.
//
// Which thread holds what: kLanesPerKey neighbouring lanes, a group, read a key, and then the value, in 16-byte
// vectors; a round has kUnroll keys for every group of the warp. A group keeps an online softmax and its elements of
// the output; at the end of a part, groups are combined by shuffles.
//
// kStages rounds of a warp are under way at once. The first ones are loaded before waitForDependencies(), as is the
// position: no kernel of the same call may write it, or keys and values before position(b), unless kOwnKeys says so.
//
// Registers: for query and output 2 · kHeadSize / kLanesPerKey, for keys and values under way
// 2 · kStages · kUnroll · sizeof(T) / 4 · kHeadSize / kLanesPerKey, and about 40.
//
// Config (all constants):
//   kHeadSize    a multiple of 8, up to 256
//   kSplits      blocks of a head
//   kWarps       warps of a block, up to 32
//   kStages      rounds of a warp that are under way at once, up to 8
//   kWindow      optional: only the last kWindow keys are visible, and the others not read; 0 = none
//   kQueries     optional: queries of a sequence; 1 if not given
//   kOwnKeys     optional: kernels of the same call write all keys and values, so that none is loaded ahead
//
// Position, Score, Epilogue: as for attention/simt_flash.cuh; position(b) ≥ 0 is the place of the first
// query's own key.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "attention/head_view.cuh"
#include "attention/window.cuh"
#include "device/base.cuh"
#include "device/computed_here.cuh"
#include "device/grid.cuh"
#include "device/index.cuh"
#include "device/vec.cuh"
#include "device/warp.cuh"
#include "norm/online_softmax.cuh"
#include "shape.cuh"

namespace kiln {

/// The most parts of a head: one for each lane of the warp that combines them.
constexpr int kSplitParts = int(kWarpSize);

/// The contribution of some of the keys to a head's output: kHeadSize elements of Σ weight · value, then the maximum of
/// these keys' scores, to which the weights are relative, and the sum of the weights. The last two are not used.
template <int kHeadSize> struct alignas(16) SplitPart {
  static constexpr int kUsed = kHeadSize + 2; ///< floats
  float values[kHeadSize + 4];
};

/// Constants that follow from a Config and the cache's element type.
template <class Config, class T> struct SplitKvShape {
  static constexpr int kHeadSize = Config::kHeadSize, kSplits = Config::kSplits, kWarps = Config::kWarps;
  static constexpr int kVec = 16 / int(sizeof(T));
  static constexpr int kVectors = kHeadSize / kVec;
  static constexpr int kLanesPerKey = widestVector(kVectors, int(kWarpSize));
  static constexpr int kSlots = kVectors / kLanesPerKey; // vectors of a lane
  static constexpr int kGroups = int(kWarpSize) / kLanesPerKey;
  static constexpr int kUnroll = max(1, 4 / kSlots); // keys of a group in a round
  static constexpr int kRoundKeys = kGroups * kUnroll;

  static_assert(kHeadSize % 8 == 0 && kHeadSize <= 256, "kHeadSize is a multiple of 8 up to 256");
  static_assert(kSplits >= 1 && kWarps >= 1 && kWarps <= 32, "a legal launch");
  static_assert(Config::kStages >= 1 && Config::kStages <= 8, "rounds in registers");
};

/// The query of a block.
template <class Config> struct SplitKvQuery {
  static constexpr int kQueries = splitQueries<Config>(0);
  int b = int(blockIndexZ()) / kQueries, t = int(blockIndexZ()) % kQueries, h = int(blockIndexY());
};

/// The visible keys of a row, and who computes them: warp w of block s has parts s · kWarps + w, and then every
/// kSplits · kWarps-th, so that few keys are all one block's.
template <class Config, class T> struct SplitKvKeys {
  using Shape = SplitKvShape<Config, T>;
  static constexpr int kStride = Shape::kSplits * Shape::kWarps;

  int first, settled, newest, rounds, parts; // keys before `settled` are of earlier calls

  /// For query t of a sequence at this position.
  KILN_DEVICE SplitKvKeys(int position, int t) {
    constexpr int kWindow = flashWindow<Config>(0);
    settled = splitOwnKeys<Config>(0) ? 0 : position;
    newest = position + t;
    first = kWindow > 0 ? max(0, newest + 1 - kWindow) : 0;
    rounds = ceilDiv(newest + 1 - first, Shape::kRoundKeys);
    parts = min(rounds, kSplitParts);
  }

  /// The number of blocks that have parts.
  KILN_DEVICE int blocks() const { return min(Shape::kSplits, ceilDiv(parts, Shape::kWarps)); }

  /// The number of parts of the head's first block.
  KILN_DEVICE int partsOfFirst() const { return parts / kStride * Shape::kWarps + min(parts % kStride, Shape::kWarps); }

  /// A round of the warp's, and its part.
  struct Place {
    int part, round;

    KILN_DEVICE bool isIn(const SplitKvKeys &keys) const { return part < keys.parts; }
    KILN_DEVICE bool isLastOfPart(const SplitKvKeys &keys) const { return round + kSplitParts >= keys.rounds; }
    KILN_DEVICE void advance(const SplitKvKeys &keys) {
      part += isLastOfPart(keys) ? kStride : 0;
      round = isLastOfPart(keys) ? part : round + kSplitParts;
    }
  };
  KILN_DEVICE static Place place(int block) {
    const int part = block * Shape::kWarps + int(warpIndex());
    return {part, part};
  }
};

/// The work of one lane on its warp's parts of a head.
template <class Config, class T, class Score> struct SplitKvLane {
  using Shape = SplitKvShape<Config, T>;
  using Keys = SplitKvKeys<Config, T>;
  using Place = typename Keys::Place;
  static constexpr int kVec = Shape::kVec, kSlots = Shape::kSlots, kUnroll = Shape::kUnroll;
  static constexpr int kLanesPerKey = Shape::kLanesPerKey, kStages = Config::kStages;

  /// Keys and values of a round; zeros where there are none.
  struct Round {
    Packed<T, kVec> keys[kUnroll][kSlots], values[kUnroll][kSlots];
  };

  const Keys &keys;
  const Score &score;
  const T *const key, *const value; // the lane's first elements of its group's key and value in round 0
  const i64 keyStride, valueStride; // in elements, between tokens
  Vec<float, kVec> query[kSlots];
  Vec<float, kVec> out[kSlots];
  OnlineSoftmax softmax;

  KILN_DEVICE SplitKvLane(const HeadView<T> &key, const HeadView<T> &value, const Score &score, const Keys &keys, int b,
                          int h)
      : keys(keys), score(score), key(key.at(b, h, keyOf(0, 0)) + dim(0)), value(value.at(b, h, keyOf(0, 0)) + dim(0)),
        keyStride(key.tokenStride), valueStride(value.tokenStride) {}

  /// First element of the lane's vector `slot`.
  KILN_DEVICE static int dim(int slot) { return (slot * kLanesPerKey + int(laneIndex()) % kLanesPerKey) * kVec; }

  /// The group's key in a round.
  KILN_DEVICE int keyOf(int round, int u) const {
    return keys.first + round * Shape::kRoundKeys + u * Shape::kGroups + int(laneIndex()) / kLanesPerKey;
  }

  /// Elements between a vector of the round and that of round 0.
  KILN_DEVICE static i64 offset(int round, int u, int slot, i64 stride) {
    return i64(round) * (Shape::kRoundKeys * stride) + u * Shape::kGroups * stride + slot * kLanesPerKey * kVec;
  }

  /// Starts the loads of a round's keys before `end`.
  KILN_DEVICE void fetch(const Place &place, int end, Round &round) const {
    const int wantedEnd = place.isIn(keys) ? end : 0;
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      const bool isWanted = keyOf(place.round, u) < wantedEnd;
#pragma unroll
      for (int s = 0; s < kSlots; ++s) {
        round.keys[u][s] = loadPackedStreamingIf<kVec>(isWanted, key + offset(place.round, u, s, keyStride));
        round.values[u][s] = loadPackedStreamingIf<kVec>(isWanted, value + offset(place.round, u, s, valueStride));
      }
    }
  }

  /// Loads the keys of this call that are in the round.
  KILN_DEVICE void fetchNew(const Place &place, Round &round) const {
    if (!place.isIn(keys) || keys.first + (place.round + 1) * Shape::kRoundKeys <= keys.settled)
      return;
#pragma unroll
    for (int u = 0; u < kUnroll; ++u)
      if (const int k = keyOf(place.round, u); k >= keys.settled && k <= keys.newest) {
#pragma unroll
        for (int s = 0; s < kSlots; ++s) {
          round.keys[u][s] = loadPacked<kVec>(key + offset(place.round, u, s, keyStride));
          round.values[u][s] = loadPacked<kVec>(value + offset(place.round, u, s, valueStride));
        }
      }
  }

  /// `own`: the lane's first element.
  KILN_DEVICE void loadQuery(const T *own) {
#pragma unroll
    for (int s = 0; s < kSlots; ++s)
      query[s] = load<kVec>(own + s * kLanesPerKey * kVec);
  }

  KILN_DEVICE void beginPart() {
#pragma unroll
    for (int s = 0; s < kSlots; ++s)
      out[s] = {};
    softmax = {};
  }

  /// The score of key k, given the lane's `vectors` of it; the same on all lanes of the group.
  KILN_DEVICE float scoreOf(const Packed<T, kVec> (&vectors)[kSlots], int k) const {
    float qk = 0;
#pragma unroll
    for (int s = 0; s < kSlots; ++s)
      qk += (query[s] * vectors[s].unpack()).sum();
    if constexpr (kLanesPerKey > 1)
      qk = warpSum<kLanesPerKey>(qk);
    return k <= keys.newest ? score(qk) : -infinity();
  }

  /// Accumulates the group's keys of a round.
  KILN_DEVICE void add(int index, const Round &round) {
    float scores[kUnroll], largest = -infinity();
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      scores[u] = scoreOf(round.keys[u], keyOf(index, u));
      largest = fmax(largest, scores[u]);
    }
    scale(softmax.raise(largest));
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      const float weight = softmax.weight(scores[u]);
      softmax.sum += weight;
#pragma unroll
      for (int s = 0; s < kSlots; ++s)
        out[s] += round.values[u][s].unpack() * weight;
    }
  }

  KILN_DEVICE void scale(float factor) {
#pragma unroll
    for (int s = 0; s < kSlots; ++s)
      out[s] *= Vec<float, kVec>::fill(factor);
  }

  /// Adds up the groups of the warp; every group has the result.
  KILN_DEVICE void combineGroups() {
    scale(softmax.raise(warpMax(softmax.max)));
#pragma unroll
    for (int distance = kLanesPerKey; distance < int(kWarpSize); distance *= 2) {
      softmax.sum += shuffleXor(softmax.sum, distance);
#pragma unroll
      for (int s = 0; s < kSlots; ++s)
#pragma unroll
        for (int v = 0; v < kVec; ++v)
          out[s][v] += shuffleXor(out[s][v], distance);
    }
  }

  /// Calls put(part, i, vector) for the part's values from the i-th on: each is put by one lane.
  template <class Put> KILN_DEVICE void givePart(int part, const Put &put) const {
    if (int(laneIndex()) < kLanesPerKey)
#pragma unroll
      for (int s = 0; s < kSlots; ++s)
        put(part, dim(s), out[s]);
    if (laneIndex() == 0)
      put(part, Config::kHeadSize, Vec<float, 2>{softmax.max, softmax.sum});
  }

  /// Computes the parts of a warp of this block for the query at `q`, and calls put as givePart() for each. `ready()`
  /// is called once behind waitForDependencies(), with loads under way, before the first part is given. All lanes of
  /// the warp call this.
  template <class Ready, class Put> KILN_DEVICE void run(int block, const T *q, const Ready &ready, const Put &put) {
    Round rounds[kStages];
    const Place start = Keys::place(block);
    Place ahead = start, place = start;
#pragma unroll
    for (int stage = 0; stage < kStages; ++stage, ahead.advance(keys))
      fetch(ahead, keys.settled, rounds[stage]);
    const T *const ownOfQuery = computedHere(q + dim(0));
    waitForDependencies();
    loadQuery(ownOfQuery);
#pragma unroll
    for (int stage = 0; stage < kStages; ++stage, place.advance(keys))
      fetchNew(place, rounds[stage]);
    ready();
    beginPart();
    for (place = start; place.isIn(keys);) {
#pragma unroll
      for (int stage = 0; stage < kStages; ++stage) {
        if (!place.isIn(keys))
          break;
        add(place.round, rounds[stage]);
        if (ahead.isIn(keys)) // else 90 instructions would load nothing, while others wait
          fetch(ahead, keys.newest + 1, rounds[stage]);
        ahead.advance(keys);
        if (place.isLastOfPart(keys)) {
          combineGroups();
          givePart(place.part, put);
          beginPart();
        }
        place.advance(keys);
      }
    }
  }
};

/// Writes the output of a head from its parts, in any memory. All lanes of one warp call this: each weighs one part.
/// Then groups of lanes add up every kGroups-th part, for 4 elements a lane.
template <int kHeadSize, class Epilogue>
KILN_DEVICE void combineParts(const SplitPart<kHeadSize> *parts, int count, int b, int h, int t,
                              const Epilogue &epilogue) {
  constexpr int kVectors = kHeadSize / 4, kLanes = widestVector(kVectors, int(kWarpSize));
  constexpr int kGroups = int(kWarpSize) / kLanes, kAtOnce = max(1, min(4, kSplitParts / kGroups));
  const int lane = int(laneIndex()), group = lane / kLanes;
  const auto softmax = load<2>(parts[min(lane, count - 1)].values + kHeadSize);
  const float largest = warpMaxByOrder(softmax[0]);
  const float weight = lane < count ? exp(softmax[0] - softmaxShift(largest)) : 0.0f, share = weight * softmax[1];
#pragma unroll
  for (int vector = lane % kLanes; vector < kVectors; vector += kLanes) {
    Vec<float, 4> out{};
    float sum = 0; // of the weights, beside the values: a sum over the lanes would come before them
#pragma unroll 1   // most heads have few parts
    for (int first = 0; first < count; first += kAtOnce * kGroups) {
      Vec<float, 4> values[kAtOnce];
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i)
        values[i] = load<4>(parts[min(first + i * kGroups + group, count - 1)].values + vector * 4);
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        out += values[i] * shuffle(weight, u32(first + i * kGroups + group));
        sum += shuffle(share, u32(first + i * kGroups + group));
      }
    }
#pragma unroll
    for (int distance = kLanes; distance < int(kWarpSize); distance *= 2) {
      sum += shuffleXor(sum, distance);
#pragma unroll
      for (int v = 0; v < 4; ++v)
        out[v] += shuffleXor(out[v], distance);
    }
    if (group == 0)
      epilogue(out * softmaxScale(sum), b, h, t, vector * 4);
  }
}

} // namespace kiln
