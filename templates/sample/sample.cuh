//===- sample.cuh - the next token of each row --------------------------------===//
//
// Chooses greedily, or by temperature, top-k, top-p, min-p and noise, like runtime/generation/Sampler.h: the same
// logits give the same token. Then it updates the row, so that the next step needs nothing from the host: the token
// becomes the next input, the position advances, a row that reaches a stop token, its length or the end of the context
// is finished, and the token goes into a ring in host memory.
//
// Method: the two stages of sample/row_sampler.cuh in one kernel. The warps of a row's blocks do the first stage. The
// last block to arrive does the second one alone, reading from L2.
//
// Launch: grid (blocks, B) with blocks = ceildiv(ceildiv(kVocabulary, kGroup), kThreads / 32), block kThreads.
//
// Memory: logits[B][kPitch]. tokens[B] and positions[B] are @decode's arguments; `positions` holds the position of the
// token before these logits. settings[B] and rows[B] are each row's own. best[B][groups] may have any contents.
// arrivals[B] is zero before and after. launches[B] counts this kernel's launches. ring[B][kRing] is in host memory.
//
// Shared memory: 17 KB and 12 bytes for each group of a row; 22 KB for GPT-2's vocabulary.
//
// Config:
//   kVocabulary  ids; further logits are padding
//   kPitch       logits per row in memory
//   kGroup       ids per group: a multiple of 128, so large that there are at most kThreads groups
//   kThreads     a multiple of 32
//   kRing        entries of a row's ring
//
//===----------------------------------------------------------------------===//
#pragma once

#include "device/atomic.cuh"
#include "device/block.cuh"
#include "device/index.cuh"
#include "device/shared.cuh"
#include "device/warp.cuh"
#include "sample/row_sampler.cuh"
#include "sample/state.cuh"

namespace kiln {

template <class Config> struct SampleStorage {
  RowStorage<Config> row;
  bool isLast;
};

/// Whether this block is the last of its row to write the best of its groups.
template <class Config> KILN_DEVICE bool isLastOfRow(u32 *arrivals, SampleStorage<Config> &shared) {
  syncThreads();
  if (threadIndex() == 0) {
    shared.isLast = arrive(arrivals) == gridBlocksX() - 1;
    if (shared.isLast)
      *arrivals = 0;
  }
  syncThreads();
  return shared.isLast;
}

/// Updates the row's state with the chosen token. One thread calls this.
KILN_DEVICE void advanceRow(SamplingRow &row, const SamplingSettings &settings, i32 token, i32 *input, i32 *position) {
  bool isStop = token < 0;
  for (int i = 0; i < settings.stopCount; ++i)
    isStop = isStop || settings.stopTokens[i] == token;
  const int next = *position + 1;
  *input = max(token, 0);
  *position = min(next, settings.context - 1);
  row.position += 1;
  row.remaining -= 1;
  row.isFinished = isStop || row.remaining <= 0 || next >= settings.context;
}

template <class Config> constexpr SharedBytes kSampleShared = {sizeof(SampleStorage<Config>), 0};

/// The kernel's body.
template <class Config>
KILN_DEVICE void sample(const float *logits, i32 *tokens, i32 *positions, const SamplingSettings *settings,
                        SamplingRow *rows, GroupBest *best, u32 *launches, u64 *ring, u32 *arrivals) {
  using Shape = RowShape<Config>;
  const u32 b = blockIndexY();
  SamplingRow &row = rows[b];
  static_assert(sizeof(SampleStorage<Config>) <= kStaticSharedBytes);
  auto &shared = sharedStorage<SampleStorage<Config>>();
  auto publish = [&](i32 token) {
    const u32 launch = launches[b] + 1;
    launches[b] = launch;
    storeToHost(ring + i64(b) * Config::kRing + launch % Config::kRing, ringEntry(launch, token));
  };
  // All loads of the first stage are in flight together; those of a finished row are wasted.
  const SamplingSettings &own = settings[b];
  const SamplingWay way = SamplingWay::of<Config>(own);
  const NoiseKey noise = {own.seed, row.sequence, row.position};
  const bool isFinished = row.isFinished != 0; // no block of the row writes it before all have arrived
  logits += i64(b) * Config::kPitch;
  best += i64(b) * Shape::kGroups;
  const u32 group = blockIndexX() * Shape::kWarps + warpIndex();
  const GroupBest found =
      group < u32(Shape::kGroups) ? bestOfGroup<Config>(logits, group, way, noise) : GroupBest{0, 0};
  if (isFinished) {
    if (blockIndexX() == 0 && threadIndex() == 0)
      publish(kNoToken);
    return;
  }
  if (group < u32(Shape::kGroups) && laneIndex() == 0)
    best[group] = found;
  if (!isLastOfRow<Config>(arrivals + b, shared))
    return;

  const i32 token = chooseToken<Config>(logits, best, way, noise, shared.row);
  if (threadIndex() == 0) {
    advanceRow(row, own, token, tokens + b, positions + b);
    publish(token);
  }
}

} // namespace kiln
