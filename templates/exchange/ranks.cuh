//===- ranks.cuh - what kernels of several ranks have in common ------------------------------===//
//
// A rank is a GPU with its share of a model. All ranks run the same launches in the same order, and the same block of
// each of them takes part in an exchange: block b of a rank waits for block b of the others, and for no other block.
// A grid is no larger than what every GPU runs at once.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "device/base.cuh"
#include "device/block.cuh"
#include "device/inbox.cuh"
#include "device/index.cuh"
#include "device/vec.cuh"
#include "parameter_array.cuh"
#include "shape.cuh"

namespace kiln {

/// The threads of a block, and the elements of a thread, for whose words an inbox has room.
constexpr int kInboxThreads = 256, kInboxVec = 8;

/// What the others write for a block of a rank, and how often the block has waited for them.
template <int kRanks> struct alignas(16) BlockInbox {
  /// thread_exchange.cuh: pairs of neighbouring threads lie side by side, so that a warp's cross the link together.
  StampedValue words[2][kRanks][kInboxVec / 2][kInboxThreads][2];
  /// thread_exchange.cuh, of products: values without stamps, four of a thread side by side.
  u32 bits[2][kRanks][kInboxVec / 4][kInboxThreads][4];
  u32 exchanges[kInboxThreads]; ///< by this rank, with each thread's words
  u32 arrivals[kRanks];         ///< syncRanks, of the others
  u32 syncs[kRanks];            ///< by this rank, with each of the others
};

/// A kernel's view of the ranks.
template <int kRanks> struct Exchange {
  const PerRank<BlockInbox<kRanks> *, kRanks> &inboxes;
  int rank;
  const u32 *stop;

  KILN_DEVICE BlockInbox<kRanks> &inboxOf(int of) const { return inboxes[of][blockIndexX()]; }
};

/// The elements of all ranks at one place.
template <int kRanks, int V> struct RankParts {
  Vec<float, V> of[kRanks];

  KILN_DEVICE Vec<float, V> &operator[](int rank) { return of[rank]; }
  KILN_DEVICE const Vec<float, V> &operator[](int rank) const { return of[rank]; }

  /// Their sum, added up in the order of the ranks.
  KILN_DEVICE Vec<float, V> sum() const {
    Vec<float, V> all = of[0];
#pragma unroll
    for (int rank = 1; rank < kRanks; ++rank)
      all += of[rank];
    return all;
  }
};

/// The rows that a rank adds up: first .. end.
struct RowShare {
  int first, end;
};
template <int kRanks> KILN_DEVICE RowShare shareOfRank(int rows, int rank) {
  const int most = ceilDiv(rows, kRanks);
  return {min(rank * most, rows), min((rank + 1) * most, rows)};
}

/// Waits until the same block of all ranks has called this as often. What its threads wrote before is visible then,
/// in the memory of any rank.
template <int kRanks> KILN_DEVICE void syncRanks(const Exchange<kRanks> &ranks) {
  syncThreads();
  const int other = threadIndex();
  if (other < kRanks && other != ranks.rank) {
    BlockInbox<kRanks> &own = ranks.inboxOf(ranks.rank);
    const u32 count = own.syncs[other] + 1;
    own.syncs[other] = count;
    arriveAtRank(&ranks.inboxOf(other).arrivals[ranks.rank], count);
    awaitRank(&own.arrivals[other], count, ranks.stop);
  }
  syncThreads();
}

/// Addresses of a tensor in the memory of all ranks, moved by elements.
template <class T, int kRanks>
KILN_DEVICE PerRank<T *, kRanks> operator+(const PerRank<T *, kRanks> &tensors, i64 elements) {
  PerRank<T *, kRanks> moved;
#pragma unroll
  for (int rank = 0; rank < kRanks; ++rank)
    moved.of[rank] = tensors[rank] + elements;
  return moved;
}

/// Writes to the memory of all ranks.
template <class T, int kRanks, int V>
KILN_DEVICE void store(const PerRank<T *, kRanks> &targets, const Vec<float, V> &values, Site site = Site::current()) {
#pragma unroll
  for (int rank = 0; rank < kRanks; ++rank)
    store(targets[rank], values, site);
}

/// Writes the elements of a rank's share from column `col` on that are not beyond its `size` columns.
template <int V, class Target>
KILN_DEVICE void storeShare(const Target &target, const Vec<float, V> &values, int col, int size) {
#pragma unroll
  for (int i = 0; i < V; ++i)
    if (col + i < size)
      store(target + i, Vec<float, 1>{values[i]});
}

} // namespace kiln
