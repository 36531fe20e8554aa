//===- slices.cuh - sums of large tensors over all ranks ----------------------------------===//
//
// Each rank, one for each GPU, has a part of every row of a tensor. A rank adds up a share of the rows: it reads the
// other ranks' parts from their memory, in the order of the ranks, and writes the results to the memory of all of them.
// Every element is computed once, so that all ranks have the same bits. Statistics of the results' rows, if there are
// some, go to the memory of all ranks, too.
//
// A warp adds up a row and has its results in registers, from which it computes the statistics: with the bits of
// norm/row_of_warp.cuh. What other ranks have of kStages rows, the warp's current one and those behind it, is on its
// way over the link to shared memory at any time (device/bulk_copy.cuh): few blocks would not have registers for so
// much. The rest is loaded kUnroll vectors at a time. GPUs before Hopper have no such copies: with one stage, the other
// ranks' parts are loaded like the rest.
//
// A block begins when the same block of every rank is there: then all parts are complete, and nobody needs any more
// what was in the place of the results. It ends when the same blocks have ended: a rank that goes on has all its
// results, and the others have read its parts. They share the rows alike.
//
// Launch: grid of any size up to what every GPU runs at once, block kThreads.
//
// Shared memory, dynamic: for each warp and stage kRanks - 1 rows of parts, and a barrier; none with one stage.
//
// Config:
//   kRanks      ranks, 2 or more
//   kCols       elements of a row
//   kBlocks     most blocks of a launch
//   kThreads    threads of a block, whole warps
//   kStages     rows of a warp that are on their way, of a multiple of 16 bytes each; 1: none are
//   kUnroll     vectors of a lane that are loaded at once
//   kVec        elements of a vector: 1, 2, 4 or 8, or the widest that divides kCols if there are statistics
//
// Body: as exchange/row_body.cuh has it, with
//   using Part = bf16;                            the type of parts
//   const Part *part(int rank, int row) const;    a rank's part of a row
//
//===----------------------------------------------------------------------===//
#pragma once

#include "device/barrier.cuh"
#include "device/bulk_copy.cuh"
#include "device/shared.cuh"
#include "exchange/ranks.cuh"
#include "exchange/row_body.cuh"
#include "norm/row_of_warp.cuh"
#include "shape.cuh"

namespace kiln {

template <class Config, class Part> struct SlicesStorage {
  static constexpr int kWarps = Config::kThreads / int(kWarpSize), kStages = Config::kStages;
  alignas(16) Part rows[kWarps][kStages][Config::kRanks - 1][Config::kCols];
  SharedBarrier full[kWarps][kStages];
};

template <class Config, class Part> KILN_DEVICE constexpr int slicesBytes() {
  if constexpr (Config::kStages > 1)
    return int(sizeof(SlicesStorage<Config, Part>));
  return 0;
}
template <class Config, class Part>
constexpr SharedBytes kExchangeSlicesShared = {0, slicesBytes<Config, Part>()};

/// The rows of a warp: every kWarps-th of the rank's share, so that all blocks have equally many.
struct RowsOfWarp {
  int first, stride, end;

  KILN_DEVICE int row(int i) const { return first + i * stride; }
  KILN_DEVICE bool has(int i) const { return row(i) < end; }
};

/// The i-th of the other ranks.
KILN_DEVICE int otherRank(int i, int own) { return i + (i >= own); }

/// Other ranks' parts of a warp's rows, which come to shared memory.
template <class Config, class Body> struct CopiedParts {
  using Part = typename Body::Part;
  static constexpr int kStages = Config::kStages, kRanks = Config::kRanks;
  const Body &body;
  int own;
  RowsOfWarp rows;
  SlicesStorage<Config, Part> &shared = dynamicShared<SlicesStorage<Config, Part>>();

  /// By all threads of the block, before they wait for each other.
  KILN_DEVICE void init() const {
    if (laneIndex() != 0)
      return;
    for (int stage = 0; stage < kStages; ++stage)
      initBarrier(shared.full[warpIndex()][stage], 1);
    fenceBarriers();
  }
  /// Asks for the warp's i-th row, in the stage of which nobody reads any more.
  KILN_DEVICE void ask(int i) const {
    constexpr u32 kRowBytes = Config::kCols * sizeof(Part);
    if (laneIndex() != 0 || !rows.has(i))
      return;
    const int stage = i % kStages;
    SharedBarrier &full = shared.full[warpIndex()][stage];
    arriveExpecting(full, (kRanks - 1) * kRowBytes);
#pragma unroll
    for (int other = 0; other < kRanks - 1; ++other)
      copyBytes(SharedAddress(shared.rows[warpIndex()][stage][other]), body.part(otherRank(other, own), rows.row(i)),
                kRowBytes, full);
  }
  KILN_DEVICE void begin() const {
    fenceGlobalCopies();
    for (int i = 0; i < kStages; ++i)
      ask(i);
  }
  KILN_DEVICE void await(int i) const { waitBarrier(shared.full[warpIndex()][i % kStages], u32(i / kStages) & 1); }
  KILN_DEVICE const Part *part(int other, int i) const { return shared.rows[warpIndex()][i % kStages][other]; }
  KILN_DEVICE void release(int i) const {
    syncWarp();
    ask(i + kStages);
  }
};

/// The same, read where they are.
template <class Config, class Body> struct PartsOfOthers {
  using Part = typename Body::Part;
  const Body &body;
  int own;
  RowsOfWarp rows;

  KILN_DEVICE void init() const {}
  KILN_DEVICE void begin() const {}
  KILN_DEVICE void await(int) const {}
  KILN_DEVICE const Part *part(int other, int i) const { return body.part(otherRank(other, own), rows.row(i)); }
  KILN_DEVICE void release(int) const {}
};

/// The parts of all ranks in their order: this rank's, and those of the others.
template <int kRanks, int V, class Part>
KILN_DEVICE RankParts<kRanks, V> inOrder(int own, const Packed<Part, V> &mine,
                                         const Packed<Part, V> (&theirs)[kRanks - 1]) {
  const Vec<float, V> ofThis = mine.unpack();
  RankParts<kRanks, V> all;
#pragma unroll
  for (int rank = 0; rank < kRanks; ++rank) {
    const Vec<float, V> before = theirs[min(rank, kRanks - 2)].unpack(), behind = theirs[max(rank - 1, 0)].unpack();
#pragma unroll
    for (int v = 0; v < V; ++v)
      all[rank][v] = rank == own ? ofThis[v] : rank < own ? before[v] : behind[v];
  }
  return all;
}

/// Adds up the warp's i-th row.
template <class Config, class Body, class Parts>
KILN_DEVICE void sumRow(const Body &body, const Parts &others, int i) {
  constexpr int V = Config::kVec, kRanks = Config::kRanks, kUnroll = Config::kUnroll;
  using Stored = StatisticsOfRows<Body>;
  using Held = HeldRow<typename Stored::Type, Config::kCols, V>;
  using Loaded = Packed<typename Body::Part, V>;
  const int row = others.rows.row(i);
  Held held;
#pragma unroll
  for (int first = 0; first < Held::kTrips; first += kUnroll) {
    Loaded mine[kUnroll];
    typename Body::template Operands<V> with[kUnroll];
#pragma unroll
    for (int u = 0; u < kUnroll; ++u)
      if (Held::exists(first + u)) {
        mine[u] = loadPacked<V>(body.part(others.own, row) + Held::col(first + u));
        with[u] = body.template operands<V>(row, Held::col(first + u));
      }
    if (first == 0)
      others.await(i);
    Loaded theirs[kUnroll][kRanks - 1];
#pragma unroll
    for (int u = 0; u < kUnroll; ++u)
#pragma unroll
      for (int other = 0; other < kRanks - 1; ++other)
        if (Held::exists(first + u))
          theirs[u][other] = loadPacked<V>(others.part(other, i) + Held::col(first + u));
#pragma unroll
    for (int u = 0; u < kUnroll; ++u)
      if (Held::exists(first + u)) {
        const auto all = inOrder<kRanks>(others.own, mine[u], theirs[u]);
        Stored::pass(body, all.sum(), with[u], row, Held::col(first + u), held.of[first + u]);
      }
  }
  others.release(i);
  if constexpr (Stored::kExist)
    passStatistics(body, held, row);
}

/// Adds up the warp's rows; `others` has the other ranks' parts.
template <class Config, class Body, class Parts>
KILN_DEVICE void sumRows(const Exchange<Config::kRanks> &ranks, const Body &body, const Parts &others) {
  others.init();
  syncRanks(ranks);
  others.begin();
  for (int i = 0; others.rows.has(i); ++i)
    sumRow<Config>(body, others, i);
  syncRanks(ranks);
}

/// The kernel's body.
template <class Config, class Body>
KILN_DEVICE void exchangeSlices(int rows, const Exchange<Config::kRanks> &ranks, const Body &body) {
  static_assert(Config::kRanks > 1 && Config::kCols % Config::kVec == 0);
  constexpr int kWarps = Config::kThreads / int(kWarpSize);
  const RowShare share = shareOfRank<Config::kRanks>(rows, ranks.rank);
  const int blocks = int(gridBlocksX()), first = share.first + int(warpIndex()) * blocks + int(blockIndexX());
  const RowsOfWarp own = {first, kWarps * blocks, share.end};
  if constexpr (Config::kStages > 1)
    sumRows<Config>(ranks, body, CopiedParts<Config, Body>{body, ranks.rank, own});
  else
    sumRows<Config>(ranks, body, PartsOfOthers<Config, Body>{body, ranks.rank, own});
}

} // namespace kiln
