//===- whole_row.cuh - top-k and top-p over all tokens of a row -----------------===//
//
// Top-k and top-p look for the logit at which a sum over all larger logits (of 1, or of weights) reaches a bound. A
// histogram over the distance from the largest logit narrows it to 1/16; four more over bits of the logit find it. (In
// a histogram over the upper bits of all logits, most of them would fall into a few bins.) Of equal logits, the lowest
// ids are kept. All sums are of integers, so their order does not matter.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "device/atomic.cuh"
#include "device/block.cuh"
#include "sample/row.cuh"

namespace kiln {

constexpr int kSampleBins = 1024;

template <class Config> struct WholeRowStorage {
  u64 bins[kSampleBins];
  u64 warps[32];
  u32 groupTies[RowShape<Config>::kGroups];
  BlockScratch<u32> tieScratch;
  u32 found;  ///< index of a bin
  u64 before; ///< sum of everything before it
  u32 lastId; ///< of the last tie that is kept
};

template <class Config> struct WholeRow {
  using Shape = RowShape<Config>;
  static constexpr int kThreads = Config::kThreads, kWarps = Shape::kWarps;

  const float *logits;
  const TokenDraw &draw;
  WholeRowStorage<Config> &shared;
  BlockScratch<u64> &scratch;

  /// A search for the most probable tokens whose sum reaches `needed` >= 1; none of them is below the key `from`.
  struct Search {
    bool isByWeight;
    u32 from;
    u64 needed;
    u32 distance = 0; ///< bin of the first histogram
  };

  /// The distance from the largest logit in sixteenths; the last bin holds all larger distances.
  KILN_DEVICE u32 distanceOf(float logit) const {
    const float distance = (draw.largest - logit) * 16.0f;
    return distance < float(kSampleBins - 1) ? u32(distance) : u32(kSampleBins - 1);
  }
  /// A key that is at most the key of every logit with at most this distance. (The difference is rounded as in
  /// distanceOf, and rounding keeps the order.)
  KILN_DEVICE u32 keyOfDistance(u32 distance) const {
    return distance < kSampleBins - 1 ? orderedKey(draw.largest - float(distance + 1) / 16.0f) : 0;
  }

  /// Fills the histogram over distances.
  KILN_DEVICE void countDistances(const Search &search) {
    count([&](float logit) -> Share {
      const u32 distance = distanceOf(logit);
      // Keys below `from` are never found. The last bin need not be counted, since it is found if no other is; it may
      // hold most of the tokens.
      if (orderedKey(logit) < search.from || (!search.isByWeight && distance == kSampleBins - 1))
        return {0, 0};
      return {distance, search.isByWeight ? draw.weightOf(logit) : 1};
    });
  }

  /// The sum of all bins.
  KILN_DEVICE u64 counted() const {
    u64 sum = 0;
    for (int bin = int(threadIndex()); bin < kSampleBins; bin += kThreads)
      sum += shared.bins[bin];
    return blockSum(sum, scratch);
  }

  /// Continues after countDistances.
  KILN_DEVICE void findDistance(Search &search) { search.distance = findBin(search.needed); }

  /// Continues after findDistance and completes the search: the candidate, by logit, of the least probable token found.
  KILN_DEVICE u64 finish(Search &search) {
    // Keys are inverted, so that the most probable come first. `prefix` has the bits that are known, `known` marks
    // them.
    u32 prefix = 0, known = 0;
    for (int shift = 22; shift >= 0; shift = shift == 2 ? 0 : shift - 10) {
      count([&](float logit) -> Share {
        const u32 key = ~orderedKey(logit);
        if ((key & known) != prefix || distanceOf(logit) != search.distance)
          return {0, 0};
        return {(key & ~known) >> shift, search.isByWeight ? draw.weightOf(logit) : 1};
      });
      prefix |= findBin(search.needed) << shift;
      known = ~u32(0) << shift;
    }
    const u64 each = search.isByWeight ? draw.weightOf(valueOfKey(~prefix)) : 1;
    return packCandidate(~prefix, idOfTie(~prefix, u32((search.needed + each - 1) / each)));
  }

  /// The whole search. It reads the row six times.
  KILN_DEVICE u64 select(Search search) {
    countDistances(search);
    findDistance(search);
    return finish(search);
  }

  /// The total weight of the tokens whose candidate, by logit, is at least `least`.
  KILN_DEVICE u64 totalWeight(u64 least) {
    u64 sum = 0;
    walk([&](u32, const GroupLogits<Config> &group) {
#pragma unroll
      for (int i = 0; i < group.kCount; ++i)
        sum += group.candidate(i) >= least ? draw.weightOf(group.logits[i]) : 0;
    });
    return blockSum(sum, scratch);
  }

private:
  /// A token's contribution to a bin.
  struct Share {
    u32 bin;
    u64 amount;
  };

  template <class Body> KILN_DEVICE void walk(Body body) const {
    walkGroups<Config>(logits, Shape::kGroups, [](u32 i) { return i; }, body);
  }

  /// Adds shareOf(logit) of each logit to the bins.
  template <class ShareOf> KILN_DEVICE void count(ShareOf shareOf) {
    for (int bin = int(threadIndex()); bin < kSampleBins; bin += kThreads)
      shared.bins[bin] = 0;
    syncThreads();
    walk([&](u32, const GroupLogits<Config> &group) {
#pragma unroll
      for (int i = 0; i < group.kCount; ++i) {
        const Share share = shareOf(group.logits[i]);
        if (share.amount != 0)
          addToShared(&shared.bins[share.bin], share.amount);
      }
    });
    syncThreads();
  }

  /// Finds the first bin at which the cumulative sum reaches `needed`, and subtracts the sum before it from `needed`.
  /// All threads call this.
  KILN_DEVICE u32 findBin(u64 &needed) {
    // First each warp's bins, then the sums of warps, then the bins of the warp that contains the result.
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
    needed -= shared.before;
    return shared.found;
  }

  /// The first lane at which `before` plus the cumulative values reach `needed`; adds the values of earlier lanes to
  /// `before`. The last lane if none does.
  KILN_DEVICE static u32 firstReaching(u64 value, u64 needed, u64 &before) {
    const u64 sum = before + warpInclusiveSum(value);
    const u32 reaching = ballot(sum >= needed) | 0x80000000u;
    const u32 lane = firstBit(reaching);
    before = shuffle(sum - value, lane);
    return lane;
  }

  /// The id of the token number `rank`, from 1, among those with this key, in order of id. The last id there is if they
  /// are fewer, as where less than k tokens of a row are not masked.
  KILN_DEVICE u32 idOfTie(u32 key, u32 rank) {
    walk([&](u32 index, const GroupLogits<Config> &group) {
      u32 ties = 0;
#pragma unroll
      for (int i = 0; i < group.kCount; ++i)
        ties += bitCount(ballot(group.key(i) == key));
      if (laneIndex() == 0)
        shared.groupTies[index] = ties;
    });
    if (threadIndex() == 0)
      shared.lastId = Config::kVocabulary - 1;
    syncThreads();
    const u32 own = threadIndex() < u32(Shape::kGroups) ? shared.groupTies[threadIndex()] : 0;
    const u32 before = blockPrefixSum(own, shared.tieScratch).before;
    if (before < rank && rank <= before + own)
      shared.lastId = idOfTieInGroup(threadIndex(), key, rank - before);
    syncThreads();
    return shared.lastId;
  }

  /// The same in a group that has that many. One thread calls this, and reads the group alone.
  KILN_DEVICE u32 idOfTieInGroup(u32 group, u32 key, u32 rank) const {
    u32 id = group * Config::kGroup;
    for (;; ++id)
      if (orderedKey(logits[id]) == key && --rank == 0)
        return id;
  }
};

} // namespace kiln
