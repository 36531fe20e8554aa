//===- exchange.cuh - what several ranks have at the same place of a tensor ----------------===//
//
// Each rank, one for each GPU, has a tensor of the same shape. For all of its elements, calls body(index, parts) with
// the elements of all ranks: to add them up (all_reduce) or to put them side by side (all_gather). Every rank computes
// the same, in the same order, and so gets the same bits.
//
// A thread writes its elements into the inboxes of the other ranks, each value beside a stamp (device/inbox.cuh), and
// waits for those that the others write into its own. The n-th time that thread t of block b of a rank does so, it
// exchanges with thread t of block b of the other ranks, whatever launch that is: all ranks run the same launches in
// the same order. The stamp is n, and the words are those of n's parity: when another rank writes its values of n + 2
// there, it has seen this rank's of n + 1, so that this thread has read those of n. So all exchanges of a plan share
// one inbox.
//
// Waiting takes as long as one way over the link. For many elements slices.cuh is faster: it moves half the bytes.
//
// Launch: grid of any size up to kBlocks, block kThreads. No shared memory.
//
// Config:
//   kRanks      ranks, 2 or more
//   kBlocks     most blocks of a launch
//   kThreads    threads of a block, at most kInboxThreads
//   kVec        elements of a thread at a time: 1, 2, 4 or 8; rows are a multiple
//
// Body:
//   template <int V> Vec<float, V> load(i64 index) const;
//     This rank's elements index .. index + V.
//   template <int V> void operator()(i64 index, const RankParts<kRanks, V> &parts) const;
//     `parts[r]` are rank r's.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "device/shared.cuh"
#include "exchange/ranks.cuh"
#include "norm/group_statistics.cuh"

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

/// Writes the elements of a rank's share from column `col` on that are not beyond its `size` columns.
template <int V, class T> KILN_DEVICE void storeShare(T *target, const Vec<float, V> &values, int col, int size) {
#pragma unroll
  for (int i = 0; i < V; ++i)
    if (col + i < size)
      store(target + i, Vec<float, 1>{values[i]});
}

template <class Config> constexpr SharedBytes kExchangeElementsShared = {0, 0};

/// The kernel's body. `count` is a multiple of kVec.
template <class Config, class Body>
KILN_DEVICE void exchangeElements(i64 count, const Exchange<Config::kRanks> &ranks, const Body &body) {
  constexpr int V = Config::kVec, kRanks = Config::kRanks;
  static_assert(Config::kThreads <= kInboxThreads && V <= kInboxVec && kRanks > 1);
  const int thread = threadIndex();
  BlockInbox<kRanks> &own = ranks.inboxOf(ranks.rank);
  u32 stamp = own.exchanges[thread];
  const i64 stride = i64(gridBlocksX()) * Config::kThreads * V;
  for (i64 index = (i64(blockIndexX()) * Config::kThreads + thread) * V; index < count; index += stride) {
    ++stamp;
    const Vec<float, V> mine = body.template load<V>(index);
#pragma unroll
    for (int rank = 0; rank < kRanks; ++rank)
      if (rank != ranks.rank)
        give(ranks.inboxOf(rank).words[stamp % 2][ranks.rank][0][thread], mine, stamp);
    RankParts<kRanks, V> parts;
#pragma unroll
    for (int rank = 0; rank < kRanks; ++rank)
      parts[rank] = rank == ranks.rank ? mine : take<V>(own.words[stamp % 2][rank][0][thread], stamp, ranks.stop);
    body.template operator()<V>(index, parts);
  }
  own.exchanges[thread] = stamp;
}

} // namespace kiln
