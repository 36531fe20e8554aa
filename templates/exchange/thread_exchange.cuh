//===- thread_exchange.cuh - what a thread exchanges with its like on other ranks -----------===//
//
// A thread writes its elements into the inboxes of the other ranks, each value beside a stamp (device/inbox.cuh), and
// waits for those that the others write into its own. The n-th time that thread t of block b of a rank does so, it
// exchanges with thread t of block b of the other ranks, whatever launch that is: all ranks run the same launches in
// the same order. The stamp is n, and the words are those of n's parity: when another rank writes its values of n + 2
// there, it has seen this rank's of n + 1, so that this thread has read those of n. So all exchanges of a plan share
// one inbox.
//
// A thread of a product exchanges once in a launch. Then it need not tell its values from earlier ones: what it has
// read, it clears, and before another rank's values of n + 2 come, the launch has ended. So its values come without
// stamps, in half the bytes.
//
// All blocks of such a launch must run at once: there are no more than every GPU has room for. Kernels that start
// early cannot take that room, since they start when all blocks of the kernel before them run; and kernels before end
// by themselves, or are such launches, too.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "exchange/ranks.cuh"

namespace kiln {

/// Words between two pairs of a thread.
constexpr int kInboxPairs = 2 * kInboxThreads;

/// Writes a thread's elements into the inbox of a rank.
template <int V> KILN_DEVICE void give(StampedValue *target, const Vec<float, V> &values, u32 stamp) {
#pragma unroll
  for (int i = 0; i < V; i += 2)
    postToRank(target + i / 2 * kInboxPairs, {values[i], i + 1 < V ? values[i + 1] : 0.0f}, stamp);
}

/// Waits for those that a rank writes into this one's.
template <int V> KILN_DEVICE Vec<float, V> take(const StampedValue *source, u32 stamp, const u32 *stop) {
  const auto pairs = awaitPosts<ceilDiv(V, 2)>(source, kInboxPairs, stamp, stop);
  Vec<float, V> values;
#pragma unroll
  for (int i = 0; i < V; ++i)
    values[i] = pairs[i];
  return values;
}

/// The exchanges of a thread in a launch.
template <int kRanks> struct ThreadExchange {
  static_assert(kRanks > 1);
  const Exchange<kRanks> &ranks;
  const int thread = threadIndex();
  BlockInbox<kRanks> &own = ranks.inboxOf(ranks.rank);
  u32 stamp = own.exchanges[thread];

  /// After waitForDependencies(): earlier kernels have counted, too.
  KILN_DEVICE explicit ThreadExchange(const Exchange<kRanks> &ranks) : ranks(ranks) {}

  /// The elements of all ranks at the place of this rank's.
  template <int V> KILN_DEVICE RankParts<kRanks, V> operator()(const Vec<float, V> &mine) {
    static_assert(V <= kInboxVec);
    ++stamp;
#pragma unroll
    for (int rank = 0; rank < kRanks; ++rank)
      if (rank != ranks.rank)
        give(ranks.inboxOf(rank).words[stamp % 2][ranks.rank][0][thread], mine, stamp);
    RankParts<kRanks, V> parts;
#pragma unroll
    for (int rank = 0; rank < kRanks; ++rank)
      parts[rank] = rank == ranks.rank ? mine : take<V>(own.words[stamp % 2][rank][0][thread], stamp, ranks.stop);
    return parts;
  }

  /// Counts them for the next launch.
  KILN_DEVICE void end() const { own.exchanges[thread] = stamp; }
};

/// A product that is the whole one, in a kernel that exchanges nothing.
struct OneRank {};

/// Of a thread that has a part of a product in its epilogue: makes it the sum of those of all ranks.
template <class Ranks> struct SumOfParts;

template <> struct SumOfParts<OneRank> {
  static constexpr bool kExchanges = false;
  KILN_DEVICE explicit SumOfParts(const OneRank &) {}
  template <int V> KILN_DEVICE Vec<float, V> operator()(const Vec<float, V> &product, bool) { return product; }
};

template <int kRanks> struct SumOfParts<Exchange<kRanks>> {
  static constexpr bool kExchanges = true;
  /// Words between two vectors of a thread.
  static constexpr int kStride = 4 * kInboxThreads;
  const Exchange<kRanks> &ranks;
  const int thread = threadIndex();
  BlockInbox<kRanks> &own = ranks.inboxOf(ranks.rank);
  /// Blocks may have more threads than have a vector, and room in an inbox.
  const u32 count = thread < kInboxThreads ? own.exchanges[thread] + 1 : 0;

  /// After waitForDependencies(): earlier kernels have counted, too.
  KILN_DEVICE explicit SumOfParts(const Exchange<kRanks> &ranks) : ranks(ranks) {}

  /// Called once, by threads that have a vector, which is so for all ranks.
  template <int V> KILN_DEVICE Vec<float, V> operator()(const Vec<float, V> &part, bool exists) const {
    if (!exists)
      return part;
    constexpr int kWidth = min(V, 4), kPosts = V / kWidth;
    static_assert(V >= 2 && V <= kInboxVec);
    auto vector = [&](int post) {
      Vec<float, kWidth> values;
#pragma unroll
      for (int i = 0; i < kWidth; ++i)
        values[i] = part[post * kWidth + i];
      return values;
    };
#pragma unroll
    for (int rank = 0; rank < kRanks; ++rank)
      if (rank != ranks.rank)
#pragma unroll
        for (int post = 0; post < kPosts; ++post)
          postBitsToRank(ranks.inboxOf(rank).bits[count % 2][ranks.rank][post][thread], vector(post));
    own.exchanges[thread] = count;
    RankParts<kRanks, V> parts;
#pragma unroll
    for (int rank = 0; rank < kRanks; ++rank)
      parts[rank] = rank == ranks.rank
                        ? part
                        : takePostedBits<kWidth, kPosts>(own.bits[count % 2][rank][0][thread], kStride, ranks.stop);
    return parts.sum();
  }
};

} // namespace kiln
