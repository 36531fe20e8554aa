//===- simt_split_kv.cuh - attention of one query over a cache, split by keys ---===//
//
// out[b, h, :] = Σ_key softmax(score(q[b, h, :] · k[b, h, key, :])) v[b, h, key, :] over keys 0 ..
// position(b) inclusive, one query a row (decode), fp32 arithmetic on any GPU.
//
// Method: split-KV decoding (FlashDecoding; Dao, Haziza, Massa, Sizov, 2023) in one kernel: a block takes kChunk
// consecutive keys, so that heads × splits fill the GPU, and leaves its part of the sum, the largest score and the sum
// of weights in a workspace. The block that arrives last for its (b, h) combines all parts, always in the order of the
// keys: the result is bitwise the same in every run. Blocks past the position leave at once; a single active block
// skips the workspace. Keys and values of earlier positions, and the position itself, are read before
// waitForDependencies(): no kernel of the same call may write them.
//
// Launch: grid (splits, heads, batch) with splits ≥ ceildiv(keys, kChunk) for the most visible keys of the launch,
// block 32 · kWarps.
//
// Which thread holds what: kLanesPerKey neighbouring lanes read a key, and then the value, in 16-byte
// vectors; so a warp has 32 / kLanesPerKey keys in flight at once, times kUnroll. Every such group keeps an
// online softmax and its elements of the output; groups are combined over the warp by shuffles and over the
// warps through shared memory.
//
// Shared memory: kWarps · (kHeadSize + 4) · 4 + 16 bytes.
//
// Registers: (2 + 2 · kUnroll · sizeof(T) / 4) · kHeadSize / kLanesPerKey for query, output, and the keys and
// values under way; 40 to 48 in all for head size 64 and kUnroll = 2.
//
// Workspace (global memory): SplitPart<kHeadSize> parts[batch][heads][splits], any contents, 16-byte aligned,
// and u32 arrivals[batch][heads], zero before the first launch; the last block resets it, so that a graph can
// replay.
//
// Config:
//   kHeadSize    a multiple of 8, up to 256
//   kChunk       keys of a block
//   kWarps       warps of a block, up to 32
//   kUnroll      keys of a group that are loaded together
//   kWindow      optional: only the last kWindow keys are visible, and the others not read; 0 = none
//
// Position, Score, Epilogue: as for attention/simt_flash.cuh; position(b) ≥ 0 is the place of the query's own
// key, and the epilogue's t is 0.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "arrivals.cuh"
#include "attention/head_view.cuh"
#include "attention/window.cuh"
#include "device/base.cuh"
#include "device/block.cuh"
#include "device/grid.cuh"
#include "device/index.cuh"
#include "device/shared.cuh"
#include "device/vec.cuh"
#include "device/warp.cuh"
#include "norm/online_softmax.cuh"
#include "shape.cuh"

namespace kiln {

/// The contribution of some of the keys to a head's output: Σ weight · value, relative to the maximum of these keys'
/// scores.
template <int kHeadSize> struct alignas(16) SplitPart {
  float out[kHeadSize];
  OnlineSoftmax softmax;
  float padding[2];
};

/// Bytes of the workspace's two arrays.
KILN_DEVICE constexpr i64 splitPartBytes(i64 batch, i64 heads, i64 splits, i64 headSize) {
  return batch * heads * splits * (headSize + 4) * i64(sizeof(float));
}
KILN_DEVICE constexpr i64 splitArrivalBytes(i64 batch, i64 heads) { return batch * heads * i64(sizeof(u32)); }

/// Constants that follow from a Config and the cache's element type.
template <class Config, class T> struct SimtSplitShape {
  static constexpr int kHeadSize = Config::kHeadSize, kUnroll = Config::kUnroll;
  static constexpr int kVec = 16 / int(sizeof(T));
  static constexpr int kVectors = kHeadSize / kVec;
  static constexpr int kLanesPerKey = widestVector(kVectors, int(kWarpSize));
  static constexpr int kSlots = kVectors / kLanesPerKey; // vectors of a lane
  static constexpr int kKeysPerWarp = int(kWarpSize) / kLanesPerKey;
  static constexpr int kGroups = Config::kWarps * kKeysPerWarp; // keys of a block at once
  static constexpr int kOutputVec = 4;

  static_assert(kHeadSize % 8 == 0 && kHeadSize <= 256, "kHeadSize is a multiple of 8 up to 256");
  static_assert(Config::kWarps >= 1 && Config::kWarps <= 32 && kUnroll >= 1 && Config::kChunk >= 1, "a legal block");
  static_assert(sizeof(SplitPart<kHeadSize>) == splitPartBytes(1, 1, 1, kHeadSize), "the documented layout");
};

template <class Config> struct SimtSplitStorage {
  SplitPart<Config::kHeadSize> warps[Config::kWarps];
  bool isLast;
};

/// Elements d .. d + 4 of a head's output, from consecutive parts.
template <int kHeadSize> struct CombinedParts {
  static constexpr int kAtOnce = 8; // parts whose loads are in flight together

  OnlineSoftmax softmax;
  Vec<float, 4> out{};

  KILN_DEVICE CombinedParts(const SplitPart<kHeadSize> *parts, int count, int d) {
    for (int first = 0; first < count; first += kAtOnce)
      add(parts + first, min(kAtOnce, count - first), d);
  }

  KILN_DEVICE void add(const SplitPart<kHeadSize> *parts, int count, int d) {
    OnlineSoftmax softmaxes[kAtOnce];
    Vec<float, 4> outs[kAtOnce];
    float largest = -infinity();
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const SplitPart<kHeadSize> &part = parts[min(i, count - 1)];
      softmaxes[i] = part.softmax;
      outs[i] = load<4>(part.out + d);
      largest = fmax(largest, softmaxes[i].max);
    }
    out *= Vec<float, 4>::fill(softmax.raise(largest));
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const float factor = i < count ? softmax.weight(softmaxes[i].max) : 0.0f;
      softmax.sum += softmaxes[i].sum * factor;
      out += outs[i] * factor;
    }
  }
};

/// The work of one thread on its block's keys.
template <class Config, class T, class Score> struct SimtSplit {
  using Shape = SimtSplitShape<Config, T>;
  static constexpr int kVec = Shape::kVec, kSlots = Shape::kSlots, kUnroll = Shape::kUnroll;
  static constexpr int kLanesPerKey = Shape::kLanesPerKey;

  /// Keys and values of a round; zeros where there are none.
  struct Round {
    Packed<T, kVec> keys[kUnroll][kSlots] = {}, values[kUnroll][kSlots] = {};
  };

  const HeadView<T> &key, &value;
  const Score &score;
  const int b, h;
  const int keyEnd; // first key that is not the block's
  Vec<float, kVec> query[kSlots];
  Vec<float, kVec> out[kSlots];
  OnlineSoftmax softmax;

  /// First element of the lane's vector `slot`.
  KILN_DEVICE static int dim(int slot) { return (slot * kLanesPerKey + int(laneIndex()) % kLanesPerKey) * kVec; }

  KILN_DEVICE void begin(const T *q) {
#pragma unroll
    for (int s = 0; s < kSlots; ++s) {
      query[s] = load<kVec>(q + dim(s));
      out[s] = {};
    }
  }

  /// The key of the group in the round that starts at `firstKey`.
  KILN_DEVICE static int keyOf(int firstKey, int u) {
    return firstKey + int(threadIndex()) / kLanesPerKey + u * Shape::kGroups;
  }

  /// Starts the loads of the round's keys that are in begin .. end.
  KILN_DEVICE void fetch(int firstKey, int begin, int end, Round &round) const {
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      const int k = keyOf(firstKey, u);
      if (k < begin || k >= end)
        continue;
#pragma unroll
      for (int s = 0; s < kSlots; ++s) {
        round.keys[u][s] = loadPacked<kVec>(key.at(b, h, k) + dim(s));
        round.values[u][s] = loadPacked<kVec>(value.at(b, h, k) + dim(s));
      }
    }
  }

  /// The score of key k, given the lane's `vectors` of it; the same on all lanes of the group.
  KILN_DEVICE float scoreOf(const Packed<T, kVec> (&vectors)[kSlots], int k) const {
    float qk = 0;
#pragma unroll
    for (int s = 0; s < kSlots; ++s)
      qk += (query[s] * vectors[s].unpack()).sum();
    if constexpr (kLanesPerKey > 1)
      qk = warpSum<kLanesPerKey>(qk);
    return k < keyEnd ? score(qk) : -infinity();
  }

  /// Accumulates the group's keys of a round. All lanes of the block take part in every round.
  KILN_DEVICE void add(int firstKey, const Round &round) {
    float scores[kUnroll], largest = -infinity();
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      scores[u] = scoreOf(round.keys[u], keyOf(firstKey, u));
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
  KILN_DEVICE void combineWarp() {
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

  /// Writes the warp's part; called by the lanes of its first group.
  KILN_DEVICE void write(SplitPart<Config::kHeadSize> &part) const {
#pragma unroll
    for (int s = 0; s < kSlots; ++s)
      storeShared(part.out + dim(s), out[s]);
    if (laneIndex() == 0)
      part.softmax = softmax;
  }
};

/// Calls body(d) for every group of 4 elements of the head that is this thread's.
template <class Config, class Body> KILN_DEVICE void forEachOutput(Body body) {
  for (int d = int(threadIndex()) * 4; d < Config::kHeadSize; d += Config::kWarps * int(kWarpSize) * 4)
    body(d);
}

/// Writes the output of a head from all its parts.
template <class Config, class Epilogue>
KILN_DEVICE void finishHead(const SplitPart<Config::kHeadSize> *parts, int count, int b, int h,
                            const Epilogue &epilogue) {
  forEachOutput<Config>([&](int d) {
    const CombinedParts<Config::kHeadSize> head(parts, count, d);
    epilogue(head.out * softmaxScale(head.softmax.sum), b, h, 0, d);
  });
}

template <class Config> constexpr SharedBytes kSimtSplitKvShared = {sizeof(SimtSplitStorage<Config>), 0};

/// The kernel's body; `parts` and `arrivals` are the workspace.
template <class Config, class T, class Position, class Score, class Epilogue>
KILN_DEVICE void simtSplitKv(const HeadView<T> &query, const HeadView<T> &key, const HeadView<T> &value,
                             const Position &position, const Score &score, SplitPart<Config::kHeadSize> *parts,
                             u32 *arrivals, const Epilogue &epilogue) {
  using Split = SimtSplit<Config, T, Score>;
  allowDependents();
  const int b = int(blockIndexZ()), h = int(blockIndexY()), split = int(blockIndexX());
  constexpr int kWindow = flashWindow<Config>(0);
  const int newest = position(b), keys = newest + 1, firstVisible = kWindow > 0 ? max(0, keys - kWindow) : 0;
  const int active = ceilDiv(keys - firstVisible, Config::kChunk);
  if (split >= active)
    return;

  const int firstKey = firstVisible + split * Config::kChunk, keyEnd = min(firstKey + Config::kChunk, keys);
  Split own{key, value, score, b, h, keyEnd, {}, {}, {}};
  // Older keys are being loaded while the kernel that computes the query and the newest key still runs.
  typename Split::Round first;
  own.fetch(firstKey, firstKey, min(keyEnd, newest), first);
  waitForDependencies();
  own.fetch(firstKey, newest, keyEnd, first);
  own.begin(query.at(b, h, 0));
  own.add(firstKey, first);
  constexpr int kRound = Split::Shape::kGroups * Config::kUnroll;
  for (int k = firstKey + kRound; k < keyEnd; k += kRound) {
    typename Split::Round round;
    own.fetch(k, k, keyEnd, round);
    own.add(k, round);
  }
  own.combineWarp();
  auto &shared = sharedStorage<SimtSplitStorage<Config>>();
  if (laneIndex() < Split::kLanesPerKey)
    own.write(shared.warps[warpIndex()]);
  syncThreads();
  if (active == 1)
    return finishHead<Config>(shared.warps, Config::kWarps, b, h, epilogue);

  const i64 head = i64(b) * gridBlocksY() + h;
  parts += head * gridBlocksX();
  forEachOutput<Config>([&](int d) {
    const CombinedParts<Config::kHeadSize> part(shared.warps, Config::kWarps, d);
    store(parts[split].out + d, part.out);
    if (d == 0)
      parts[split].softmax = part.softmax;
  });
  if (arrivesLast(arrivals + head, active, shared.isLast))
    finishHead<Config>(parts, active, b, h, epilogue);
}

} // namespace kiln
