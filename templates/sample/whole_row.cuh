//===- whole_row.cuh - choosing from all tokens of a row ------------------------===//
//
// Top-k and top-p look for the logit at which a sum over all larger logits (of 1, or of weights) reaches a bound. A
// histogram over the distance from the largest logit narrows it to 1/16; four more over bits of the logit find it. (In
// a histogram over the upper bits of all logits, most of them would fall into a few bins.) Ties go by id. All sums are
// of integers, so their order does not matter.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "device/atomic.cuh"
#include "device/block.cuh"
#include "sample/row.cuh"

namespace kiln {

constexpr int kSampleBins = 1024;

/// The tokens that sampling keeps: those above a key, and of those with this key a number of the lowest ids.
struct Kept {
  u32 key;
  u32 ties;
};

template <class Config> struct WholeRowStorage {
  u64 bins[kSampleBins];
  u64 warps[32];
  u64 groupWeights[RowShape<Config>::kGroups]; ///< without ties
  u32 groupTies[RowShape<Config>::kGroups];
  BlockScratch<u32> tieScratch;
  u32 found;  ///< index of a bin
  u64 before; ///< sum of everything before it
  u32 group;  ///< group of the drawn token
  u64 target; ///< rest of the drawn weight within the group
  u32 tiesLeft;
  u32 token;
};

template <class Config> struct WholeRow {
  using Shape = RowShape<Config>;
  static constexpr int kThreads = Config::kThreads, kWarps = Shape::kWarps;

  const float *logits;
  const TokenWeights weights;
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
    const float distance = (weights.largest - logit) * 16.0f;
    return distance < float(kSampleBins - 1) ? u32(distance) : u32(kSampleBins - 1);
  }
  /// A key that is at most the key of every logit with at most this distance. (The difference is rounded as in
  /// distanceOf, and rounding keeps the order.)
  KILN_DEVICE u32 keyOfDistance(u32 distance) const {
    return distance < kSampleBins - 1 ? orderedKey(weights.largest - float(distance + 1) / 16.0f) : 0;
  }

  /// Fills the histogram over distances.
  KILN_DEVICE void countDistances(const Search &search) {
    count([&](float logit) -> Share {
      const u32 distance = distanceOf(logit);
      // Keys below `from` are never found. The last bin need not be counted, since it is found if no other is; it may
      // hold most of the tokens.
      if (orderedKey(logit) < search.from || (!search.isByWeight && distance == kSampleBins - 1))
        return {0, 0};
      return {distance, search.isByWeight ? weights.of(logit) : 1};
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

  /// Continues after findDistance and completes the search.
  KILN_DEVICE Kept finish(Search &search) {
    // Keys are inverted, so that the most probable come first. `prefix` has the bits that are known, `known` marks
    // them.
    u32 prefix = 0, known = 0;
    for (int shift = 22; shift >= 0; shift = shift == 2 ? 0 : shift - 10) {
      count([&](float logit) -> Share {
        const u32 key = ~orderedKey(logit);
        if ((key & known) != prefix || distanceOf(logit) != search.distance)
          return {0, 0};
        return {(key & ~known) >> shift, search.isByWeight ? weights.of(logit) : 1};
      });
      prefix |= findBin(search.needed) << shift;
      known = ~u32(0) << shift;
    }
    const u64 each = search.isByWeight ? weights.ofKey(~prefix) : 1;
    return {~prefix, u32((search.needed + each - 1) / each)};
  }

  /// The whole search. It reads the row five times.
  KILN_DEVICE Kept select(Search search) {
    countDistances(search);
    findDistance(search);
    return finish(search);
  }

  /// The total weight of the kept tokens.
  KILN_DEVICE u64 totalWeight(Kept kept) {
    weighGroups(kept);
    return scanGroups(kept).sum.total;
  }

  /// The token drawn from the kept ones; all threads call this.
  KILN_DEVICE u32 draw(Kept kept, u64 random) {
    weighGroups(kept);
    const GroupScan scan = scanGroups(kept);
    const u64 target = drawnWeight(random, scan.sum.total);
    if (scan.sum.before <= target && target < scan.sum.before + scan.own) {
      shared.group = threadIndex();
      shared.target = target - scan.sum.before;
      shared.tiesLeft = scan.tiesLeft;
    }
    syncThreads();
    if (warpIndex() == 0)
      drawFromGroup(kept.key);
    syncThreads();
    return shared.token;
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

  /// Sums the weights and counts the ties of every group.
  KILN_DEVICE void weighGroups(Kept kept) {
    walk([&](u32 index, const GroupLogits<Config> &group) {
      u64 sum = 0;
      u32 ties = 0;
#pragma unroll
      for (int i = 0; i < group.kCount; ++i) {
        const u32 key = group.key(i);
        sum += key > kept.key ? weights.of(group.logits[i]) : 0;
        ties += key == kept.key;
      }
      sum = warpSum(sum);
      ties = warpSum(ties);
      if (laneIndex() == 0) {
        shared.groupWeights[index] = sum;
        shared.groupTies[index] = ties;
      }
    });
    syncThreads();
  }

  /// The cumulative values at a thread's group.
  struct GroupScan {
    u64 own; ///< weight of the group, with the ties that are kept
    PrefixSum<u64> sum;
    u32 tiesLeft; ///< ties that are kept from here on
  };

  KILN_DEVICE GroupScan scanGroups(Kept kept) {
    const bool isGroup = threadIndex() < u32(Shape::kGroups);
    const u32 ties = isGroup ? shared.groupTies[threadIndex()] : 0;
    const u32 tiesBefore = blockPrefixSum(ties, shared.tieScratch).before;
    GroupScan scan;
    scan.tiesLeft = kept.ties - min(kept.ties, tiesBefore);
    scan.own = isGroup ? shared.groupWeights[threadIndex()] : 0;
    scan.own += min(ties, scan.tiesLeft) * weights.ofKey(kept.key);
    scan.sum = blockPrefixSum(scan.own, scratch);
    return scan;
  }

  /// Finds the token in its group. One warp calls this.
  KILN_DEVICE void drawFromGroup(u32 keptKey) {
    const auto group = GroupLogits<Config>::load(logits, shared.group);
    const u64 tieWeight = weights.ofKey(keptKey);
    u64 before = 0; // sum over the earlier vectors of all lanes
    u32 ties = 0;   // ties in those vectors
#pragma unroll
    for (int first = 0; first < group.kCount; first += Shape::kVector) {
      u64 own[Shape::kVector], sum = 0;
      u32 ownTies = 0;
#pragma unroll
      for (int i = 0; i < Shape::kVector; ++i)
        ownTies += group.key(first + i) == keptKey;
      const u32 tiesUpToThis = ties + warpInclusiveSum(ownTies);
      u32 tie = tiesUpToThis - ownTies;
#pragma unroll
      for (int i = 0; i < Shape::kVector; ++i) {
        const u32 key = group.key(first + i);
        const bool isKeptTie = key == keptKey && tie++ < shared.tiesLeft;
        own[i] = key > keptKey ? weights.of(group.logits[first + i]) : isKeptTie ? tieWeight : 0;
        sum += own[i];
      }
      const u64 upToThis = before + warpInclusiveSum(sum);
      sum = upToThis - sum;
#pragma unroll
      for (int i = 0; i < Shape::kVector; ++i, sum += own[i - 1])
        if (sum <= shared.target && shared.target < sum + own[i])
          shared.token = u32(group.idOf(first + i));
      before = shuffle(upToThis, kWarpSize - 1);
      ties = shuffle(tiesUpToThis, kWarpSize - 1);
    }
  }
};

} // namespace kiln
