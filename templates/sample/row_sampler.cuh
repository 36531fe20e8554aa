//===- row_sampler.cuh - the token of one row -----------------------------------===//
//
// Chooses a token from a row of logits in two stages, which any kernel can call. First, a warp for each group finds
// what is best in it (bestOfGroup). Then, when all groups are known, a block chooses the token (chooseToken):
// - Greedy: the largest logit.
// - Neither top-k nor top-p nor min-p: the first stage has drawn a token from each group as if the group were the row.
// The groups that may have the row's token, usually one, are read again.
// - Top-k, if k is at most the number of groups: the k-th largest of the groups' maxima is a bound that at least k
// logits reach, and few more do. Only the groups that reach it are read again; the logits that reach it are collected,
// and the token is chosen from them (sample/short_list.cuh).
// - Min-p alone: its bound follows from the largest logit; the rest is as for top-k.
// - Top-p alone: the row is read again for a histogram of weights over the distance from the largest logit, which gives
// the bound.
// - If more logits reach the bound than fit in the list, or if k is larger, histograms of the whole row say which
// tokens are kept (sample/whole_row.cuh), and one more reading draws. They read it six times for top-k, and six or
// seven times for top-p.
//
// Config: as of sample/sample.cuh.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "device/atomic.cuh"
#include "device/block.cuh"
#include "device/index.cuh"
#include "device/warp.cuh"
#include "sample/choice.cuh"
#include "sample/short_list.cuh"
#include "sample/state.cuh"
#include "sample/whole_row.cuh"

namespace kiln {

/// The shared memory of chooseToken.
template <class Config> struct RowStorage {
  u32 groupKeys[RowShape<Config>::kGroups]; ///< the largest key of each group
  ShortListStorage<Config> list;
  WholeRowStorage<Config> row;
  BlockScratch<u64> scratch;
  TokenDraw draw; ///< here because registers are short
};

/// The part of SamplingSettings that affects the choice.
struct SamplingWay {
  bool isGreedy;
  u32 topK; ///< 0: off
  u64 topP; ///< 0: off
  u32 mostExponent;
  float scale;

  template <class Config> KILN_DEVICE static SamplingWay of(const SamplingSettings &settings) {
    return {settings.isGreedy != 0, settings.topK < Config::kVocabulary ? u32(settings.topK) : 0, settings.topP,
            settings.mostExponent, settings.scale};
  }
  /// Whether every token may be drawn.
  KILN_DEVICE bool keepsAll() const { return topK == 0 && topP == 0 && mostExponent == kLargestExponent; }
};

/// The results of the first stage.
struct GroupBest {
  u64 logit; ///< the group's best candidate by logit
  u64 drawn; ///< the candidate drawn from the group, with exponents relative to its largest logit; if needed, else 0
};

/// The first stage, for a group of the row; all lanes of a warp call this, and all get the result.
template <class Config>
KILN_DEVICE GroupBest bestOfGroup(const float *logits, u32 index, const SamplingWay &way, const NoiseKey &noise) {
  const auto group = GroupLogits<Config>::load(logits, index);
  u64 best = 0;
#pragma unroll
  for (int i = 0; i < group.kCount; ++i)
    best = max(best, candidateOf(group.logits[i], u32(group.idOf(i))));
  best = warpMax(best);
  if (way.isGreedy || !way.keepsAll())
    return {best, 0};
  const TokenDraw draw = {valueOfKey(keyOfCandidate(best)), way.scale, kLargestExponent, noise};
  return {best, warpMax(group.draw(draw, 0))};
}

/// The second stage for a row that is not chosen greedily and has a largest logit.
template <class Config> struct RowSampler {
  using Shape = RowShape<Config>;

  const TokenDraw &draw;
  ShortList<Config> list;
  WholeRow<Config> row;
  BlockScratch<u64> &scratch;

  KILN_DEVICE RowSampler(const float *logits, RowStorage<Config> &shared)
      : draw(shared.draw), list{logits, shared.groupKeys, draw, shared.list, shared.scratch},
        row{logits, draw, shared.row, shared.scratch}, scratch(shared.scratch) {}

  /// The chosen token; all threads call this. `own` is of the thread's group.
  KILN_DEVICE u32 choose(const SamplingWay &way, const GroupBest &own) {
    Kept kept = {way.topK, way.topP, 0, 0};
    if (!way.keepsAll() && isListed(way, kept))
      return list.choose(kept.topK, kept.topP, kept.total);
    const bool isRead = way.keepsAll() ? mayHaveToken(own) : threadIndex() < u32(Shape::kGroups);
    u64 best = 0;
    list.walkListed(isRead,
                    [&](u32, const GroupLogits<Config> &group) { best = max(best, group.draw(draw, kept.least)); });
    return idOfCandidate(blockReduce<Max>(best, u64(0), scratch, Site::current()));
  }

private:
  /// The tokens that top-k and top-p keep: of those in the list, by ShortList::choose, or of the row.
  struct Kept {
    u32 topK;
    u64 topP;
    u64 total; ///< weight that topP is a fraction of; 0: that of the listed tokens
    u64 least; ///< the least candidate, by logit, of the row
  };

  /// Whether the kept tokens are in the list. If not, `kept.least` says which they are.
  KILN_DEVICE bool isListed(const SamplingWay &way, Kept &kept) {
    if (way.topK == 0 && way.topP == 0)
      return list.collect(keyOfMinP());
    if (way.topK != 0) {
      if (way.topK <= u32(min(Shape::kGroups, kListed<Config>)) && list.collect(list.boundOf(way.topK)))
        return true;
      kept.least = row.select({/*isByWeight=*/false, /*from=*/0, way.topK});
    }
    if (way.topP == 0)
      return false;
    kept.total = way.topK != 0 ? row.totalWeight(kept.least) : 0;
    typename WholeRow<Config>::Search search = {/*isByWeight=*/true, keyOfCandidate(kept.least), 0};
    row.countDistances(search);
    if (way.topK == 0)
      kept.total = row.counted();
    search.needed = topPWeight(way.topP, kept.total);
    row.findDistance(search);
    kept.topK = 0;
    if (list.collect(row.keyOfDistance(search.distance)))
      return true;
    kept.least = row.finish(search);
    return false;
  }

  /// A key that is at most the key of every logit that min-p keeps, and hardly less. (Rounding keeps the order.)
  KILN_DEVICE u32 keyOfMinP() const {
    const float distance = float(draw.mostExponent + 1) / draw.scale;
    return orderedKey(draw.largest - distance * 1.000001f);
  }

  /// Whether the token drawn from all tokens may be in the thread's group.
  KILN_DEVICE bool mayHaveToken(const GroupBest &own) {
    // The score that the group's token has in the row, but for kExponentRounding. So the group of the row's token may
    // be behind the first group by twice as much.
    constexpr u64 kRounding = 2 * kExponentRounding, kOffset = u64(1) << 40;
    const u64 score = kOffset + u64(i64(TokenDraw::scoreOfKey(keyOfCandidate(own.drawn)))) -
                      draw.exponentOf(valueOfKey(keyOfCandidate(own.logit)));
    const u64 bound = own.drawn != 0 ? score : 0;
    return bound + kRounding >= blockReduce<Max>(bound, u64(0), scratch, Site::current());
  }
};

/// The token that is chosen greedily, where this is the row's best candidate by logit; kNotFinite or kAllMasked if its
/// logits have none.
KILN_DEVICE i32 tokenOfBest(u64 best) {
  if (best == kBadCandidate)
    return kNotFinite;
  return keyOfCandidate(best) == kMinusInfinityKey ? kAllMasked : i32(idOfCandidate(best));
}

/// The second stage: the token of a row with these bests of its groups; kNotFinite or kAllMasked if its logits have
/// none. All threads of the block call this, and all get the result.
template <class Config>
KILN_DEVICE i32 chooseToken(const float *logits, const GroupBest *best, const SamplingWay &way, const NoiseKey &noise,
                            RowStorage<Config> &shared) {
  const bool isGroup = threadIndex() < u32(RowShape<Config>::kGroups);
  const GroupBest own = isGroup ? best[threadIndex()] : GroupBest{0, 0};
  if (isGroup)
    shared.groupKeys[threadIndex()] = keyOfCandidate(own.logit);
  const u64 candidate = blockReduce<Max>(own.logit, u64(0), shared.scratch, Site::current());
  if (const i32 token = tokenOfBest(candidate); way.isGreedy || token < 0)
    return token;
  if (threadIndex() == 0)
    shared.draw = {valueOfKey(keyOfCandidate(candidate)), way.scale, way.mostExponent, noise};
  syncThreads();
  return i32(RowSampler<Config>(logits, shared).choose(way, own));
}

} // namespace kiln
