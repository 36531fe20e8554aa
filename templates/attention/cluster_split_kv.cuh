//===- cluster_split_kv.cuh - attention of one query over a cache, a cluster a head ---===//
//
// The blocks of a head are a cluster. They send their parts (attention/split_kv.cuh) to the first block's shared memory
// (st.async, whose bytes its barrier counts) and leave; the first block combines them. Blocks without parts leave at
// once. So parts are exchanged without global memory, fences or atomics.
//
// Launch: grid (kSplits, heads, batch · kQueries), clusters of kSplits; block 32 · kWarps. It needs sm_90 if kSplits
// > 1.
//
// Shared memory: 32 · (kHeadSize + 4) · 4 + 16 bytes.
//
// Config, Position, Score, Epilogue: as for attention/split_kv.cuh, with kSplits up to 8.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "attention/split_kv.cuh"
#include "device/barrier.cuh"
#include "device/base.cuh"
#include "device/block.cuh"
#include "device/cluster.cuh"
#include "device/shared.cuh"
#include "device/vec.cuh"

namespace kiln {

template <class Config> struct ClusterSplitStorage {
  SplitPart<Config::kHeadSize> parts[kSplitParts];
  SharedBarrier complete; // the bytes of other blocks' parts are there
};

/// Gives parts to the first block.
template <class Config> struct ClusterSplitPut {
  ClusterSplitStorage<Config> &shared;
  int rank;

  template <int V> KILN_DEVICE void operator()(int part, int i, const Vec<float, V> &values) const {
    float *place = shared.parts[part].values + i;
    if constexpr (Config::kSplits > 1)
      if (rank > 0)
        return storeAsync(inBlock(place, 0), values, inBlock(&shared.complete, 0));
    storeShared(place, values);
  }
};

template <class Config> constexpr SharedBytes kClusterSplitKvShared = {sizeof(ClusterSplitStorage<Config>), 0};

/// The kernel's body.
template <class Config, class T, class Position, class Score, class Epilogue>
KILN_DEVICE void clusterSplitKv(const HeadView<T> &query, const HeadView<T> &key, const HeadView<T> &value,
                                const Position &position, const Score &score, const Epilogue &epilogue) {
  constexpr bool kExchanges = Config::kSplits > 1;
  static_assert(Config::kSplits <= 8, "a legal cluster");
  allowDependents();
  auto &shared = sharedStorage<ClusterSplitStorage<Config>>();
  const int rank = kExchanges ? int(clusterRank()) : 0;
  const SplitKvQuery<Config> own;
  const int first = position(own.b);
  // No block may send before the barrier of the first one is initialised.
  if constexpr (kExchanges) {
    if (threadIndex() == 0) {
      initBarrier(shared.complete, 1);
      fenceBarriers();
    }
    syncWarp();
    arriveCluster();
  }
  const SplitKvKeys<Config, T> keys(first, own.t);
  const int blocks = keys.blocks();
  if (rank >= blocks)
    return;

  SplitKvLane<Config, T, Score> lane(key, value, score, keys, own.b, own.h);
  auto ready = [&] {
    if constexpr (kExchanges)
      if (blocks > 1) {
        waitCluster();
        if (rank == 0 && threadIndex() == 0)
          arriveExpecting(shared.complete,
                          u32(keys.parts - keys.partsOfFirst()) * sizeof(float) * SplitPart<Config::kHeadSize>::kUsed);
      }
  };
  lane.run(rank, query.at(own.b, own.h, own.t), ready, ClusterSplitPut<Config>{shared, rank});
  if (rank > 0)
    return;
  syncThreads();
  if (warpIndex() > 0)
    return;
  if constexpr (kExchanges)
    if (blocks > 1)
      waitClusterBarrier(shared.complete, 0);
  combineParts(shared.parts, keys.parts, own.b, own.h, own.t, epilogue);
}

} // namespace kiln
