//===- sample.cuh - the next token of each row --------------------------------===//
//
// Chooses greedily, or by temperature, top-k, top-p and a draw, like runtime/generation/Sampler.h: the same logits give
// the same token. Then it updates the row, so that the next step needs nothing from the host: the token becomes the
// next input, the position advances, a row that reaches a stop token, its length or the end of the context is finished,
// and the token goes into a ring in host memory.
//
// Method: two stages in one kernel. Each warp of a row's blocks finds the largest logit of a group of neighbouring ids.
// The last block to arrive finds the row's maximum and does the rest alone, reading from L2.
// - Top-k, if k is at most the number of groups: the k-th largest of the groups' maxima is a bound that at least k
// logits reach, and few more do. Only the groups that reach it are read again; the logits that reach it are collected,
// and the token is chosen from them (sample/short_list.cuh).
// - Top-p alone: the row is read again for a histogram of weights over the distance from the largest logit, which gives
// the bound.
// - If more logits reach the bound than fit in the list, or if k is larger, histograms of the whole row choose the
// token (sample/whole_row.cuh). They read it five times for top-k, four more times for top-p, and once for the draw.
// - Without top-k and top-p, the draw reads the row once to weigh the groups, and then the token's group.
//
// Launch: grid (blocks, B) with blocks = ceildiv(ceildiv(kVocabulary, kGroup), kThreads / 32), block kThreads.
//
// Memory: logits[B][kPitch], aligned to 16 bytes. tokens[B] and positions[B] are @decode's arguments; `positions` holds
// the position of the token before these logits. best[B][groups] may have any contents. arrivals[B] is zero before and
// after. launches[B] counts this kernel's launches. ring[B][kRing] is in host memory.
//
// Shared memory: 23 KB and 20 bytes for each group of a row; 31 KB for GPT-2's vocabulary.
//
// Config:
//   kVocabulary  ids; further logits are padding
//   kPitch       logits per row in memory
//   kGroup       ids per group: a multiple of 128, so large that there are at most kThreads groups
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
  u32 groupKeys[RowShape<Config>::kGroups]; ///< the largest key of each group
  ShortListStorage<Config> list;
  WholeRowStorage<Config> row;
  BlockScratch<u64> scratch;
  u64 random;
  bool isLast;
};

/// The part of SamplingSettings that affects the choice.
struct SamplingWay {
  bool isGreedy;
  u32 topK; ///< 0: off
  u64 topP; ///< 0: off
  float scale;
  u64 seed;
};

/// The work on a row that its last block does.
template <class Config> struct RowSampler {
  ShortList<Config> list;
  WholeRow<Config> row;

  KILN_DEVICE RowSampler(const float *logits, float largest, float scale, SampleStorage<Config> &shared)
      : list{logits, shared.groupKeys, {largest, scale}, shared.list, shared.scratch},
        row{logits, {largest, scale}, shared.row, shared.scratch} {}

  /// The chosen token; all threads call this. A top-k or top-p of 0 is off.
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

/// The best candidate of a group of the row; all lanes of a warp call this.
template <class Config> KILN_DEVICE u64 bestOfGroup(const float *logits, u32 index) {
  const auto group = GroupLogits<Config>::load(logits, index);
  u64 best = 0;
#pragma unroll
  for (int i = 0; i < group.kCount; ++i)
    best = max(best, group.logits[i] < infinity() ? group.candidate(i) : kBadCandidate);
  return warpMax(best);
}

/// Whether this block is the last of its row to write the best of its groups. While one thread finds out, another one
/// draws the random number of the step.
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

/// The row's best candidate, for all threads. The keys of its groups are left in shared memory.
template <class Config> KILN_DEVICE u64 bestOfRow(const u64 *rowBest, SampleStorage<Config> &shared) {
  const bool isGroup = threadIndex() < u32(RowShape<Config>::kGroups);
  const u64 best = isGroup ? rowBest[threadIndex()] : 0;
  if (isGroup)
    shared.groupKeys[threadIndex()] = keyOfCandidate(best);
  return blockReduce<Max>(best, u64(0), shared.scratch, Site::current());
}

/// Updates the row's state with the chosen token. One thread calls this.
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
  // All loads of the first stage are in flight together; those of a finished row are wasted.
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
