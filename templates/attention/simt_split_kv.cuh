//===- simt_split_kv.cuh - attention of one query over a cache, on any GPU ---===//
//
// The blocks of a head leave their parts (attention/split_kv.cuh) in a workspace, and the one that arrives last
// combines them. Blocks without parts leave at once; a single block keeps its parts in shared memory.
//
// Launch: grid (kSplits, heads, batch · kQueries), block 32 · kWarps.
//
// Shared memory: 32 · (kHeadSize + 4) · 4 + 16 bytes.
//
// Workspace (global memory): SplitPart<kHeadSize> parts[batch · kQueries][heads][32], any contents, 16-byte aligned,
// and u32 arrivals[batch · kQueries][heads], zero before the first launch; the last block resets it, so that a graph
// can replay.
//
// Config, Position, Score, Epilogue: as for attention/split_kv.cuh.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "arrivals.cuh"
#include "attention/split_kv.cuh"
#include "device/base.cuh"
#include "device/block.cuh"
#include "device/shared.cuh"
#include "device/vec.cuh"

namespace kiln {

template <class Config> struct SimtSplitStorage {
  SplitPart<Config::kHeadSize> parts[kSplitParts];
  bool isLast;
};

/// Leaves parts in the workspace, or in shared memory.
template <int kHeadSize> struct SimtSplitPut {
  SplitPart<kHeadSize> *parts;
  bool isShared;

  template <int V> KILN_DEVICE void operator()(int part, int i, const Vec<float, V> &values) const {
    if (isShared)
      storeShared(parts[part].values + i, values);
    else
      store(parts[part].values + i, values);
  }
};

template <class Config> constexpr SharedBytes kSimtSplitKvShared = {sizeof(SimtSplitStorage<Config>), 0};

/// The kernel's body; `parts` and `arrivals` are the workspace.
template <class Config, class T, class Position, class Score, class Epilogue>
KILN_DEVICE void simtSplitKv(const HeadView<T> &query, const HeadView<T> &key, const HeadView<T> &value,
                             const Position &position, const Score &score, SplitPart<Config::kHeadSize> *parts,
                             u32 *arrivals, const Epilogue &epilogue) {
  allowDependents();
  const SplitKvQuery<Config> own;
  const int split = int(blockIndexX());
  const SplitKvKeys<Config, T> keys(position(own.b), own.t);
  const int blocks = keys.blocks();
  if (split >= blocks)
    return;

  auto &shared = sharedStorage<SimtSplitStorage<Config>>();
  const i64 head = i64(blockIndexZ()) * gridBlocksY() + own.h;
  parts = blocks == 1 ? shared.parts : parts + head * kSplitParts;
  SplitKvLane<Config, T, Score> lane(key, value, score, keys, own.b, own.h);
  lane.run(split, query.at(own.b, own.h, own.t), [] {}, SimtSplitPut<Config::kHeadSize>{parts, blocks == 1});
  if (blocks == 1)
    syncThreads();
  else if (!arrivesLast(arrivals + head, blocks, shared.isLast))
    return;
  if (warpIndex() == 0)
    combineParts(parts, keys.parts, own.b, own.h, own.t, epilogue);
}

} // namespace kiln
