//===- sample.cuh - the next token of each row --------------------------------===//
//
// Greedy, or temperature, top-k and top-p, then a draw, as runtime/generation/Sampler.h has it: the same token from the
// same logits. Then the step's bookkeeping, so that the next step needs nothing from the host: the token becomes the
// next one's input, the position moves on, a row that meets a stop token, its length or the context's end is
// finished, and the token goes into a ring in host memory.
//
// Method: two stages in one kernel. Each warp of a row's blocks finds the largest logit of a group of neighbouring ids;
// the block that arrives last has the row's, and does the rest alone, reading from L2.
// - Top-k, with k not above the number of groups: the k-th largest of the groups' largest logits is a bound that at
//   least k logits reach, and few more do. Just the groups that reach it are read again, and what reaches it is
//   collected and chosen from: sample/short_list.cuh.
// - Top-p alone: a histogram by weight over the distance from the largest logit, for which the row is read again, gives
//   the bound.
// - Where what reaches the bound is more than the list has room for, and for larger k, histograms of the whole row
// choose
//   (sample/whole_row.cuh): it is read five times for top-k, four times more for top-p, and then for the draw.
// - The draw from a whole row, with neither top-k nor top-p from the start, reads it once to weigh groups, and then the
//   group of the token.
//
// Launch: grid (blocks, B) with blocks = ceildiv(ceildiv(kVocabulary, kGroup), kThreads / 32), block kThreads.
//
// Memory: logits[B][kPitch], aligned to 16 bytes; tokens[B] and positions[B] are @decode's arguments: `positions` holds
// where the token stands that these logits follow. best[B][groups], any contents. arrivals[B], zero before and after.
// launches[B] counts this kernel's launches. ring[B][kRing], in host memory.
//
// Shared memory: 23 KB and 20 bytes for each group of a row; 31 KB for GPT-2's vocabulary.
//
// Config:
//   kVocabulary  ids; logits behind them are padding
//   kPitch       logits of a row
//   kGroup       ids of a group, a multiple of 128, so many that the groups are no more than kThreads
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
#include "sample/short_list.cuh"
#include "sample/state.cuh"
#include "sample/whole_row.cuh"

namespace kiln {

template <class Config> struct SampleStorage {
  u32 groupKeys[RowShape<Config>::kGroups]; ///< the largest of each group
  ShortListStorage<Config> list;
  WholeRowStorage<Config> row;
  BlockScratch<u64> scratch;
  u64 random;
  bool isLast;
};

/// The part of SamplingSettings that determines the choice.
struct SamplingWay {
  bool isGreedy;
  u32 topK; ///< 0: off
  u64 topP; ///< 0: off
  float scale;
  u64 seed;
};

/// The work on one row of the block that has its largest logit.
template <class Config> struct RowSampler {
  ShortList<Config> list;
  WholeRow<Config> row;

  KILN_DEVICE RowSampler(const float *logits, float largest, float scale, SampleStorage<Config> &shared)
      : list{logits, shared.groupKeys, {largest, scale}, shared.list, shared.scratch},
        row{logits, {largest, scale}, shared.row, shared.scratch} {}

  /// The token; by all threads. Top-k and top-p are off where they are 0.
  KILN_DEVICE u32 choose(u32 topK, u64 topP, u64 random) {
    if (topK != 0 && topK <= u32(min(RowShape<Config>::kGroups, kListed<Config>)) && list.collect(list.boundOf(topK)))
      return list.choose(topK, topP, 0, random);
    Kept kept = {0, 0};
    if (topK != 0)
      kept = row.select({/*isByWeight=*/false, /*from=*/0, topK});
    if (topP != 0) {
      const u64 keptWeight = topK != 0 ? row.totalWeight(kept) : 0;
      typename WholeRow<Config>::Search search = {/*isByWeight=*/true, kept.key, 0};
      row.countDistances(search);
      const u64 total = topK != 0 ? keptWeight : row.counted();
      search.needed = topPWeight(topP, total);
      row.findDistance(search);
      if (list.collect(row.keyOfDistance(search.distance)))
        return list.choose(0, topP, total, random);
      kept = row.finish(search);
    }
    return row.draw(kept, random);
  }
};

/// The best candidate of a group of the row; by all lanes of a warp.
template <class Config> KILN_DEVICE u64 bestOfGroup(const float *logits, u32 index) {
  const auto group = GroupLogits<Config>::load(logits, index);
  u64 best = 0;
#pragma unroll
  for (int i = 0; i < group.kCount; ++i)
    best = max(best, group.logits[i] < infinity() ? group.candidate(i) : kBadCandidate);
  return warpMax(best);
}

/// Whether this block is the last of its row to have written its groups' best. While one thread finds out, another one
/// draws the step's random number.
template <class Config>
KILN_DEVICE bool isLastOfRow(u32 *arrivals, const SamplingRow &row, u64 seed, SampleStorage<Config> &shared) {
  syncThreads();
  if (threadIndex() == Config::kThreads - 1)
    shared.random = randomNumber(seed, row.sequence, row.step);
  if (threadIndex() == 0) {
    shared.isLast = arrive(arrivals) == gridBlocksX() - 1;
    if (shared.isLast)
      *arrivals = 0;
  }
  syncThreads();
  return shared.isLast;
}

/// The row's best candidate, of its groups', whose keys it leaves in shared memory; all threads get it.
template <class Config> KILN_DEVICE u64 bestOfRow(const u64 *rowBest, SampleStorage<Config> &shared) {
  const bool isGroup = threadIndex() < u32(RowShape<Config>::kGroups);
  const u64 best = isGroup ? rowBest[threadIndex()] : 0;
  if (isGroup)
    shared.groupKeys[threadIndex()] = keyOfCandidate(best);
  return blockReduce<Max>(best, u64(0), shared.scratch, Site::current());
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

template <class Config> constexpr SharedBytes kSampleShared = {sizeof(SampleStorage<Config>), 0};

/// The kernel's body.
template <class Config>
KILN_DEVICE void sample(const float *logits, i32 *tokens, i32 *positions, const SamplingSettings *settings,
                        SamplingRow *rows, u64 *best, u32 *launches, u64 *ring, u32 *arrivals) {
  using Shape = RowShape<Config>;
  const u32 b = blockIndexY();
  SamplingRow &row = rows[b];
  static_assert(sizeof(SampleStorage<Config>) <= kStaticSharedBytes);
  auto &shared = sharedStorage<SampleStorage<Config>>();
  auto publish = [&](i32 token) {
    const u32 launch = launches[b] + 1;
    launches[b] = launch;
    storeToHost(ring + i64(b) * Config::kRing + launch % Config::kRing, ringEntry(launch, token));
  };
  // All loads of the first stage are under way together, a finished row's in vain.
  const SamplingWay way = {settings->isGreedy != 0, settings->topK < Config::kVocabulary ? u32(settings->topK) : 0,
                           settings->topP, settings->scale, settings->seed};
  const bool isFinished = row.isFinished != 0; // no block of the row writes it before all have arrived
  logits += i64(b) * Config::kPitch;
  best += i64(b) * Shape::kGroups;
  const u32 group = blockIndexX() * Shape::kWarps + warpIndex();
  const u64 groupBest = group < u32(Shape::kGroups) ? bestOfGroup<Config>(logits, group) : 0;
  if (isFinished) {
    if (blockIndexX() == 0 && threadIndex() == 0)
      publish(kNoToken);
    return;
  }
  if (group < u32(Shape::kGroups) && laneIndex() == 0)
    best[group] = groupBest;
  if (!isLastOfRow<Config>(arrivals + b, row, way.seed, shared))
    return;

  const u64 candidate = bestOfRow<Config>(best, shared);
  const float largest = valueOfKey(keyOfCandidate(candidate));
  i32 token = i32(idOfCandidate(candidate));
  if (candidate == kBadCandidate)
    token = kNotFinite;
  else if (keyOfCandidate(candidate) == kMinusInfinityKey)
    token = kAllMasked;
  else if (!way.isGreedy)
    token = i32(RowSampler<Config>(logits, largest, way.scale, shared).choose(way.topK, way.topP, shared.random));
  if (threadIndex() == 0) {
    advanceRow(row, *settings, token, tokens + b, positions + b);
    publish(token);
  }
}

} // namespace kiln
