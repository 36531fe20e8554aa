//===- exchange.cuh - what several ranks have at the same place of a tensor ----------------===//
//
// Each rank, one for each GPU, has a tensor of the same shape. For all of its elements, calls body(index, parts) with
// the elements of all ranks: to add them up (all_reduce) or to put them side by side (all_gather). Every rank computes
// the same, in the same order, and so gets the same bits.
//
// Each thread exchanges its elements with the same thread of the other ranks (thread_exchange.cuh).
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
#include "exchange/thread_exchange.cuh"
#include "norm/group_statistics.cuh"

namespace kiln {

template <class Config> constexpr SharedBytes kExchangeElementsShared = {0, 0};

/// The kernel's body. `count` is a multiple of kVec.
template <class Config, class Body>
KILN_DEVICE void exchangeElements(i64 count, const Exchange<Config::kRanks> &ranks, const Body &body) {
  constexpr int V = Config::kVec;
  static_assert(Config::kThreads <= kInboxThreads);
  ThreadExchange<Config::kRanks> exchange(ranks);
  const i64 stride = i64(gridBlocksX()) * Config::kThreads * V;
  for (i64 index = (i64(blockIndexX()) * Config::kThreads + threadIndex()) * V; index < count; index += stride)
    body.template operator()<V>(index, exchange(body.template load<V>(index)));
  exchange.end();
}

} // namespace kiln
