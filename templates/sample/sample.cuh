//===- sample.cuh - the next token of each row --------------------------------===//
//
// Greedy, or temperature, top-k and top-p, then a draw, as runtime/Sampler.h has it: the same token from the same
// logits. Then the step's bookkeeping, so that the next step needs nothing from the host: the token becomes the
// next one's input, the position moves on, a row that meets a stop token, its length or the context's end is
// finished, and the token goes into a ring in host memory.
//
// Method: two stages in one kernel. Blocks of a row find the largest logit of a chunk each; the one that arrives
// last has the row's, and does the rest alone, reading the row again from L2. Top-k and top-p look for the logit
// at which a sum over all larger ones (of 1, or of weights) reaches a bound: a histogram over the distance from the
// largest logit narrows it to 1/16, four more over bits of the logit find it. (A histogram of the upper bits of
// all logits at once would have most of them meet in a few bins.) Ties go by id. All sums are of integers, so their
// order does not matter.
//
// Launch: grid (chunks, B) with chunks = ceildiv(kVocabulary, kChunk), block kThreads.
//
// Memory: logits[B][kPitch]; tokens[B] and positions[B] are @decode's arguments: `positions` holds where the token
// stands that these logits follow. best[B][chunks], any contents. arrivals[B], zero before and after. launches[B]
// counts this kernel's launches. ring[B][kRing], in host memory.
//
// Shared memory: about 13 KB.
//
// Config:
//   kVocabulary  ids; logits behind them are padding
//   kPitch       logits of a row
//   kChunk       logits of a block in the first stage
//   kThreads     a multiple of 32
//   kRing        entries of a row's ring
//
//===----------------------------------------------------------------------===//
#pragma once

#include "device/atomic.cuh"
#include "device/block.cuh"
#include "device/index.cuh"
#include "device/shared.cuh"
#include "device/warp.cuh"
#include "sample/choice.cuh"
#include "sample/state.cuh"

namespace kiln {

/// A logit and its id as one word: larger is more probable, or has the lower id among equals.
KILN_DEVICE constexpr u64 packCandidate(u32 key, u32 id) { return u64(key) << 32 | ~id; }
KILN_DEVICE constexpr u32 keyOfCandidate(u64 candidate) { return u32(candidate >> 32); }
KILN_DEVICE constexpr u32 idOfCandidate(u64 candidate) { return ~u32(candidate); }

/// Of all things in a row the first: a logit that is no number, or +infinity.
constexpr u64 kBadCandidate = ~u64(0);

constexpr int kSampleBins = 1024;

struct SampleStorage {
  u64 bins[kSampleBins];
  u64 warps[32];
  u32 warpTies[32];
  BlockScratch<u64> scratch;
  u64 bestCandidate;
  u32 found;  ///< a bin
  u64 before; ///< sum over what comes before it
  u32 token;
  bool isLast;
};

/// The tokens that sampling keeps: those above a key, and of those with this key the first so many ids.
struct Kept {
  u32 key;
  u32 ties;
};

/// The work on one row of the block that has its largest logit.
template <class Config> struct RowSampler {
  static constexpr int kThreads = Config::kThreads, kWarps = kThreads / int(kWarpSize);
  static constexpr int kLevels = 5; // of histograms; the first by distance
  static_assert(kThreads % int(kWarpSize) == 0 && kThreads <= 1024, "whole warps");

  const float *logits;
  const SamplingSettings &settings;
  const float largest;
  SampleStorage &shared;

  KILN_DEVICE u64 weight(float logit) const { return tokenWeight(logit, largest, settings.scale); }
  KILN_DEVICE u64 weightOfKey(u32 key) const { return weight(valueOfKey(key)); }

  /// What an element counts for: one, or its weight.
  KILN_DEVICE u64 measure(float logit, bool byWeight) const { return byWeight ? weight(logit) : 1; }

  /// Bins go from the most probable on: sixteenths of distance, then the key's bits, ten at a time.
  KILN_DEVICE u32 binOf(int level, float logit) const {
    const u32 key = ~orderedKey(logit);
    if (level == 0) {
      const float distance = (largest - logit) * 16.0f;
      return distance < float(kSampleBins - 1) ? u32(distance) : u32(kSampleBins - 1);
    }
    return level == 1 ? key >> 22 : level == 2 ? key >> 12 & 0x3ff : level == 3 ? key >> 2 & 0x3ff : key & 3;
  }

  /// Finds the first bin with which the sum over bins reaches `needed`; all threads get it, and the sum before it.
  KILN_DEVICE void findBin(u64 needed) {
    // A warp's bins, then the sums of warps, then the bins of the warp where it happens.
    constexpr int kPerWarp = kSampleBins / 32;
    static_assert(kPerWarp == int(kWarpSize), "a bin for each lane");
    for (u32 group = warpIndex(); group < 32; group += kWarps) {
      const u64 sum = warpSum(shared.bins[group * kPerWarp + laneIndex()]);
      if (laneIndex() == 0)
        shared.warps[group] = sum;
    }
    syncThreads();
    if (warpIndex() == 0) {
      u64 before = 0;
      const u32 group = firstReaching(shared.warps[laneIndex()], needed, before);
      const u32 bin = firstReaching(shared.bins[group * kPerWarp + laneIndex()], needed, before);
      if (laneIndex() == 0) {
        shared.found = group * kPerWarp + bin;
        shared.before = before;
      }
    }
    syncThreads();
  }

  /// The first lane with which `before` plus the values of all lanes up to it reach `needed`; adds those before it
  /// to `before`. The last lane if none does.
  KILN_DEVICE static u32 firstReaching(u64 value, u64 needed, u64 &before) {
    const u64 sum = before + warpInclusiveSum(value);
    const u32 reaching = ballot(sum >= needed) | 0x80000000u;
    const u32 lane = firstBit(reaching);
    before = shuffle(sum - value, lane);
    return lane;
  }

  /// The tokens with which the sum over the most probable ones reaches `needed` >= 1, none of them below `from`.
  /// Nothing below it is counted.
  KILN_DEVICE Kept select(u64 needed, bool byWeight, u32 from) {
    u32 path[kLevels] = {};
    for (int level = 0; level < kLevels; ++level) {
      for (int bin = int(threadIndex()); bin < kSampleBins; bin += kThreads)
        shared.bins[bin] = 0;
      syncThreads();
      for (int id = int(threadIndex()); id < Config::kVocabulary; id += kThreads) {
        const float logit = logits[id];
        bool isInside = orderedKey(logit) >= from;
        for (int above = 0; above < level; ++above)
          isInside = isInside && binOf(above, logit) == path[above];
        const u64 amount = isInside ? measure(logit, byWeight) : 0;
        if (amount != 0)
          atomicAdd(&shared.bins[binOf(level, logit)], amount);
      }
      syncThreads();
      findBin(needed);
      path[level] = shared.found;
      needed -= shared.before;
    }
    const u32 key = ~(path[1] << 22 | path[2] << 12 | path[3] << 2 | path[4]);
    const u64 each = byWeight ? weightOfKey(key) : 1;
    return {key, u32((needed + each - 1) / each)};
  }

  /// Calls body(logit, isTie) for each of the warp's ids in their order, 32 at a time, by all lanes; stops when it
  /// returns true.
  template <class Body> KILN_DEVICE void walkSegment(u32 warp, u32 key, Body body) const {
    constexpr int kSegment = ceilDiv(ceilDiv(Config::kVocabulary, kWarps), int(kWarpSize)) * int(kWarpSize);
    for (int first = int(warp) * kSegment; first < int(warp + 1) * kSegment; first += int(kWarpSize)) {
      const int id = first + int(laneIndex());
      const bool isId = id < Config::kVocabulary;
      const float logit = isId ? logits[id] : -infinity();
      const u32 own = orderedKey(logit);
      if (body(u32(id), isId && own > key ? weight(logit) : 0, isId && own == key))
        return;
    }
  }

  /// The sum of the weights of what is kept; leaves each warp's part, and its ties, in shared memory.
  KILN_DEVICE u64 totalWeight(Kept kept) {
    u64 sum = 0;
    u32 ties = 0;
    walkSegment(warpIndex(), kept.key, [&](u32, u64 weight, bool isTie) {
      sum += weight;
      ties += isTie;
      return false;
    });
    sum = warpSum(sum);
    ties = warpSum(ties);
    if (laneIndex() == 0) {
      shared.warps[warpIndex()] = sum;
      shared.warpTies[warpIndex()] = ties;
    }
    const u64 total = blockSum(laneIndex() == 0 ? sum : u64(0), shared.scratch);
    const u32 allTies = blockSumTies();
    return total + u64(min(allTies, kept.ties)) * weightOfKey(kept.key);
  }

  KILN_DEVICE u32 blockSumTies() const {
    u32 all = 0;
    for (int warp = 0; warp < kWarps; ++warp)
      all += shared.warpTies[warp];
    return all;
  }

  /// The first id, in their order, with which the weights of what is kept exceed `target`. After totalWeight.
  KILN_DEVICE u32 drawn(Kept kept, u64 target) {
    if (warpIndex() == 0) {
      const u64 tieWeight = weightOfKey(kept.key);
      u64 sum = 0;
      u32 ties = kept.ties, warp = 0;
      for (; warp + 1 < u32(kWarps); ++warp) {
        const u64 own = shared.warps[warp] + min(ties, shared.warpTies[warp]) * tieWeight;
        if (sum + own > target)
          break;
        sum += own;
        ties -= min(ties, shared.warpTies[warp]);
      }
      walkSegment(warp, kept.key, [&](u32 id, u64 weight, bool isTie) {
        const u32 tieLanes = ballot(isTie), lower = (u32(1) << laneIndex()) - 1;
        if (isTie && bitCount(tieLanes & lower) < ties)
          weight = tieWeight;
        ties -= min(ties, bitCount(tieLanes));
        const u64 sums = sum + warpInclusiveSum(weight);
        const u32 beyond = ballot(sums > target);
        if (beyond != 0 && laneIndex() == firstBit(beyond))
          shared.token = id;
        sum = shuffle(sums, kWarpSize - 1);
        return beyond != 0;
      });
    }
    syncThreads();
    return shared.token;
  }

  /// The token; by all threads.
  KILN_DEVICE u32 choose(u64 sequence, u64 step) {
    Kept kept = {0, Config::kVocabulary};
    if (settings.topK > 0 && settings.topK < Config::kVocabulary)
      kept = select(u64(settings.topK), false, 0);
    u64 total = totalWeight(kept);
    if (settings.topP != 0) {
      kept = select(topPWeight(settings.topP, total), true, kept.key);
      total = totalWeight(kept);
    }
    return drawn(kept, drawnWeight(settings.seed, sequence, step, total));
  }
};

/// The best candidate of this block's chunk of the row.
template <class Config> KILN_DEVICE u64 bestOfChunk(const float *logits, BlockScratch<u64> &scratch) {
  const int first = int(blockIndexX()) * Config::kChunk, end = min(first + Config::kChunk, Config::kVocabulary);
  u64 best = 0;
  for (int id = first + int(threadIndex()); id < end; id += Config::kThreads) {
    const float logit = logits[id];
    const u64 candidate = logit < infinity() ? packCandidate(orderedKey(logit), u32(id)) : kBadCandidate;
    best = max(best, candidate);
  }
  return blockReduce<Max>(best, u64(0), scratch, Site::current());
}

/// Whether this block is the last of its row, which then has the row's best candidate in shared memory.
template <class Config>
KILN_DEVICE bool isLastOfRow(u64 best, u64 *rowBest, u32 *arrivals, SampleStorage &shared) {
  const int chunks = int(gridBlocksX());
  if (threadIndex() == 0) {
    rowBest[blockIndexX()] = best;
    shared.isLast = arrive(arrivals) == u32(chunks - 1);
    if (shared.isLast)
      *arrivals = 0;
  }
  syncThreads();
  if (!shared.isLast)
    return false;
  u64 rowBestSoFar = 0;
  for (int chunk = int(threadIndex()); chunk < chunks; chunk += Config::kThreads)
    rowBestSoFar = max(rowBestSoFar, rowBest[chunk]);
  const u64 all = blockReduce<Max>(rowBestSoFar, u64(0), shared.scratch, Site::current());
  if (threadIndex() == 0)
    shared.bestCandidate = all;
  syncThreads();
  return true;
}

/// Carries the chosen token into the row's state. One thread.
KILN_DEVICE void advanceRow(SamplingRow &row, const SamplingSettings &settings, i32 token, i32 *input, i32 *position) {
  bool isStop = token < 0;
  for (int i = 0; i < settings.stopCount; ++i)
    isStop = isStop || settings.stopTokens[i] == token;
  const int next = *position + 1;
  *input = max(token, 0);
  *position = min(next, settings.context - 1);
  row.step += 1;
  row.remaining -= 1;
  row.isFinished = isStop || row.remaining <= 0 || next >= settings.context;
}

/// The kernel's body.
template <class Config>
KILN_DEVICE void sample(const float *logits, i32 *tokens, i32 *positions, const SamplingSettings *settings,
                        SamplingRow *rows, u64 *best, u32 *launches, u64 *ring, u32 *arrivals) {
  const u32 b = blockIndexY();
  SamplingRow &row = rows[b];
  auto &shared = sharedStorage<SampleStorage>();
  auto publish = [&](i32 token) {
    const u32 launch = launches[b] + 1;
    launches[b] = launch;
    storeToHost(ring + i64(b) * Config::kRing + launch % Config::kRing, ringEntry(launch, token));
  };
  // No block of the row writes this before all have arrived.
  if (row.isFinished) {
    if (blockIndexX() == 0 && threadIndex() == 0)
      publish(kNoToken);
    return;
  }
  logits += i64(b) * Config::kPitch;
  const u64 chunkBest = bestOfChunk<Config>(logits, shared.scratch);
  if (!isLastOfRow<Config>(chunkBest, best + i64(b) * gridBlocksX(), arrivals + b, shared))
    return;

  const u64 candidate = shared.bestCandidate;
  i32 token = i32(idOfCandidate(candidate));
  if (candidate == kBadCandidate)
    token = kNotFinite;
  else if (keyOfCandidate(candidate) == kMinusInfinityKey)
    token = kAllMasked;
  else if (!settings->isGreedy)
    token = i32(RowSampler<Config>{logits, *settings, valueOfKey(keyOfCandidate(candidate)), shared}.choose(
        row.sequence, row.step));
  if (threadIndex() == 0) {
    advanceRow(row, *settings, token, tokens + b, positions + b);
    publish(token);
  }
}

} // namespace kiln
