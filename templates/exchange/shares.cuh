//===- shares.cuh - shares of large tensors, put side by side on all ranks ------------------===//
//
// Each rank, one for each GPU, has a share of a tensor's columns. It writes its share to the memory of all ranks, where
// the whole tensor is.
//
// A block begins when the same block of every rank is there: then nobody needs any more what was in the place of the
// results. It ends when the same blocks have ended: a rank that goes on has the shares of all.
//
// Launch: grid of any size up to what every GPU runs at once, block kThreads. No shared memory.
//
// Config:
//   kRanks      ranks, 2 or more
//   kBlocks     most blocks of a launch
//   kThreads    threads of a block
//   kUnroll     vectors of a thread that are under way at once
//   kVec        elements of a vector: 1, 2, 4 or 8; rows of a share are a multiple
//
// Body:
//   template <int V> Vec<float, V> load(i64 index) const;
//     This rank's elements index .. index + V.
//   template <int V> void operator()(i64 index, const Vec<float, V> &values) const;
//     Stores them.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "device/shared.cuh"
#include "exchange/ranks.cuh"

namespace kiln {

template <class Config> constexpr SharedBytes kExchangeSharesShared = {0, 0};

/// The kernel's body. `count`: elements of the rank's share, a multiple of kVec.
template <class Config, class Body>
KILN_DEVICE void exchangeShares(i64 count, const Exchange<Config::kRanks> &ranks, const Body &body) {
  constexpr int V = Config::kVec, kUnroll = Config::kUnroll;
  const i64 vectors = count / V, threads = i64(gridBlocksX()) * Config::kThreads;
  syncRanks(ranks);
  for (i64 first = i64(blockIndexX()) * Config::kThreads + threadIndex(); first < vectors; first += threads * kUnroll) {
    Vec<float, V> values[kUnroll];
#pragma unroll
    for (int u = 0; u < kUnroll; ++u)
      if (first + u * threads < vectors)
        values[u] = body.template load<V>((first + u * threads) * V);
#pragma unroll
    for (int u = 0; u < kUnroll; ++u)
      if (first + u * threads < vectors)
        body.template operator()<V>((first + u * threads) * V, values[u]);
  }
  syncRanks(ranks);
}

} // namespace kiln
