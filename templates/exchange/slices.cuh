//===- slices.cuh - sums of large tensors over all ranks ----------------------------------===//
//
// Each rank, one for each GPU, has a part of every element of a tensor. A rank adds up one slice of the elements: it
// reads the other ranks' parts from their memory, in the order of the ranks, and writes the results to the memory of
// all of them. Every element is computed once, so that all ranks have the same bits.
//
// A block begins when the same block of every rank is there: then all parts are complete, and nobody needs any more
// what was in the place of the results. It ends when the same blocks have ended: a rank that goes on has all its
// results, and the others have read its parts. They share the slices alike.
//
// Launch: grid of any size up to what every GPU runs at once, block kThreads. No shared memory.
//
// Config:
//   kRanks      ranks, 2 or more
//   kBlocks     most blocks of a launch
//   kThreads    threads of a block
//   kUnroll     vectors of a thread that are under way at once
//   kVec        elements of a vector: 1, 2, 4 or 8; rows are a multiple
//
// Body:
//   template <int V> Vec<float, V> load(int rank, i64 index) const;
//     A rank's elements index .. index + V.
//   template <int V> void operator()(i64 index, const RankParts<kRanks, V> &parts) const;
//     `parts[r]` are rank r's.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "device/shared.cuh"
#include "exchange/ranks.cuh"

namespace kiln {

template <class Config> constexpr SharedBytes kExchangeSlicesShared = {0, 0};

/// The kernel's body. `count` is a multiple of kVec.
template <class Config, class Body>
KILN_DEVICE void exchangeSlices(i64 count, const Exchange<Config::kRanks> &ranks, const Body &body) {
  constexpr int V = Config::kVec, kRanks = Config::kRanks, kUnroll = Config::kUnroll;
  static_assert(kRanks > 1);
  const i64 vectors = count / V, end = vectors * (ranks.rank + 1) / kRanks;
  const i64 threads = i64(gridBlocksX()) * Config::kThreads;
  syncRanks(ranks);
  for (i64 first = vectors * ranks.rank / kRanks + i64(blockIndexX()) * Config::kThreads + threadIndex(); first < end;
       first += threads * kUnroll) {
    RankParts<kRanks, V> parts[kUnroll];
#pragma unroll
    for (int u = 0; u < kUnroll; ++u)
#pragma unroll
      for (int rank = 0; rank < kRanks; ++rank)
        if (first + u * threads < end)
          parts[u][rank] = body.template load<V>(rank, (first + u * threads) * V);
#pragma unroll
    for (int u = 0; u < kUnroll; ++u)
      if (first + u * threads < end)
        body.template operator()<V>((first + u * threads) * V, parts[u]);
  }
  syncRanks(ranks);
}

} // namespace kiln
