//===- short_list.cuh - choosing from the few most probable tokens -------------===//
//
// A block collects all tokens of a row whose logit reaches a bound, and chooses from them. A token's rank is the number
// of more probable ones, found by comparing all with all. Ranks give top-k, and prefix sums of weights in order of rank
// top-p. So the order in which tokens were collected does not matter.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "device/atomic.cuh"
#include "device/block.cuh"
#include "sample/row.cuh"
#include "sample/state.cuh"

namespace kiln {

/// The most tokens in a list: one for each thread, and few enough to compare all with all.
template <class Config> constexpr int kListed = min(Config::kThreads, 512);

template <class Config> struct ShortListStorage {
  u64 tokens[kListed<Config>]; ///< candidates, in any order
  u64 sums[kListed<Config>];   ///< by rank
  u32 groups[RowShape<Config>::kGroups];
  u32 groupCount;
  u32 count;
};

template <class Config> struct ShortList {
  using Shape = RowShape<Config>;

  const float *logits;
  const u32 *groupKeys; ///< in shared memory; the largest key of each group
  const TokenDraw &draw;
  ShortListStorage<Config> &shared;
  BlockScratch<u64> &scratch;

  /// A key that at least k of the row's keys reach, and few more: the k-th largest of the groups' largest keys. 1 <= k
  /// <= groups.
  KILN_DEVICE u32 boundOf(u32 k) const {
    const u32 own = threadIndex() < u32(Shape::kGroups) ? groupKeys[threadIndex()] : 0;
    u32 bound = 0;
#pragma unroll 1
    for (u32 bit = 0x80000000u; bit != 0; bit >>= 1)
      if (syncThreadsCount(own >= (bound | bit)) >= k)
        bound |= bit;
    return bound;
  }

  /// Calls body(group, logits) for the groups whose thread passes true; see walkGroups.
  template <class Body> KILN_DEVICE void walkListed(bool isListed, Body body) {
    if (threadIndex() == 0)
      shared.groupCount = 0;
    syncThreads();
    if (isListed)
      shared.groups[atomicAdd(&shared.groupCount, 1u)] = threadIndex();
    syncThreads();
    walkGroups<Config>(logits, shared.groupCount, [&](u32 i) { return shared.groups[i]; }, body);
  }

  /// Collects all tokens whose key is at least `bound`. False if they do not fit in the list.
  KILN_DEVICE bool collect(u32 bound) {
    if (threadIndex() == 0)
      shared.count = 0;
    const bool isListed = threadIndex() < u32(Shape::kGroups) && groupKeys[threadIndex()] >= bound;
    walkListed(isListed, [&](u32, const GroupLogits<Config> &group) {
      u32 own = 0;
#pragma unroll
      for (int i = 0; i < group.kCount; ++i)
        own += group.key(i) >= bound;
      const u32 upToThis = warpInclusiveSum(own);
      u32 next = 0;
      if (laneIndex() == kWarpSize - 1)
        next = atomicAdd(&shared.count, upToThis);
      next = shuffle(next, kWarpSize - 1) + upToThis - own;
#pragma unroll
      for (int i = 0; i < group.kCount; ++i)
        if (group.key(i) >= bound) {
          if (next < u32(kListed<Config>))
            shared.tokens[next] = group.candidate(i);
          ++next;
        }
    });
    syncThreads();
    return shared.count <= u32(kListed<Config>);
  }

  /// The token drawn from the list; all threads call this, after collect. A top-k or top-p of 0 is off. `rowTotal` is
  /// the weight that top-p is a fraction of; 0 means the weight of the k most probable tokens.
  KILN_DEVICE u32 choose(u32 topK, u64 topP, u64 rowTotal) {
    const bool isToken = threadIndex() < shared.count;
    const u64 own = isToken ? shared.tokens[threadIndex()] : 0;
    const u32 rank = isToken && (topK != 0 || topP != 0) ? rankOf(own) : 0;
    bool isKept = isToken && (topK == 0 || rank < topK);
    const float logit = valueOfKey(keyOfCandidate(own));
    if (topP != 0)
      isKept = isInTopP(isToken, rank, isKept ? draw.weightOf(logit) : 0, topP, rowTotal) && isKept;
    const u32 id = idOfCandidate(own);
    const u64 candidate = isKept && draw.isKept(logit) ? draw.candidate(logit, id, tokenNoise(draw.noise, id)) : 0;
    return idOfCandidate(blockReduce<Max>(candidate, u64(0), scratch, Site::current()));
  }

private:
  /// The number of more probable tokens in the list.
  KILN_DEVICE u32 rankOf(u64 own) const {
    u32 rank = 0;
#pragma unroll 4
    for (u32 i = 0; i < shared.count; ++i)
      rank += shared.tokens[i] > own;
    return rank;
  }

  /// Whether the tokens of lower rank do not yet reach top-p's part of the weight.
  KILN_DEVICE bool isInTopP(bool isToken, u32 rank, u64 weight, u64 topP, u64 rowTotal) {
    if (isToken)
      shared.sums[rank] = weight;
    syncThreads();
    const PrefixSum<u64> sum = blockPrefixSum(isToken ? shared.sums[threadIndex()] : 0, scratch);
    if (isToken)
      shared.sums[threadIndex()] = sum.before;
    syncThreads();
    return isToken && shared.sums[rank] < topPWeight(topP, rowTotal == 0 ? sum.total : rowTotal);
  }
};

} // namespace kiln
