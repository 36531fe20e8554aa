//===- sample.cuh - the next token of each row --------------------------------===//
//
// Chooses greedily, or by temperature, top-k, top-p, min-p and noise, like runtime/generation/sampling/Sampler.h: the
// same logits give the same token. Then it updates the row (sample/sequence.cuh), so that the next step needs nothing
// from the host.
//
// Method: the two stages of sample/row_sampler.cuh in one kernel. The warps of a row's blocks do the first stage. The
// last block to arrive does the second one alone, reading from L2.
//
// Launch: grid (blocks, B) with blocks = ceildiv(ceildiv(kVocabulary, kGroup), kThreads / 32), block kThreads.
//
// Memory: logits[B][kPitch]; the state of the rows, as of SequenceState. best[B][groups] may have any contents.
// arrivals[B] is zero before and after.
//
// Shared memory: 17 KB and 12 bytes for each group of a row; 22 KB for GPT-2's vocabulary.
//
// Config:
//   kVocabulary  ids; further logits are padding
//   kPitch       logits per row in memory
//   kGroup       ids per group: a multiple of 128, so large that there are at most kThreads groups
//   kThreads     a multiple of 32
//   kRing        entries of a row's ring
//   kContext     the most positions of a row
//
//===----------------------------------------------------------------------===//
#pragma once

#include "arrivals.cuh"
#include "device/block.cuh"
#include "device/index.cuh"
#include "device/shared.cuh"
#include "device/warp.cuh"
#include "sample/row_sampler.cuh"
#include "sample/sequence.cuh"
#include "sample/state.cuh"

namespace kiln {

template <class Config> struct SampleStorage {
  RowStorage<Config> row;
  bool isLast;
};

template <class Config> constexpr SharedBytes kSampleShared = {sizeof(SampleStorage<Config>), 0};

/// What a block of a row knows of it before the others have arrived.
struct RowChoice {
  SamplingWay way;
  NoiseKey noise;
  bool isFinished; ///< no block of the row writes this before all have arrived

  /// Of the token `ahead` places behind the row's next one.
  template <class Config>
  KILN_DEVICE static RowChoice of(const SamplingSettings &settings, const SamplingRow &row, u32 ahead) {
    return {
        SamplingWay::of<Config>(settings), {settings.seed, row.sequence, row.position + ahead}, row.isFinished != 0};
  }
};

/// The first stage: the block's warps find the best of a group each. All loads are in flight together, also where the
/// row turns out to be finished.
template <class Config> KILN_DEVICE void findBest(const float *logits, const RowChoice &choice, GroupBest *best) {
  using Shape = RowShape<Config>;
  const u32 group = blockIndexX() * Shape::kWarps + warpIndex();
  if (group >= u32(Shape::kGroups))
    return;
  const GroupBest found = bestOfGroup<Config>(logits, group, choice.way, choice.noise);
  if (!choice.isFinished && laneIndex() == 0)
    best[group] = found;
}

/// The kernel's body.
template <class Config>
KILN_DEVICE void sample(const float *logits, const SequenceState<Config> &state, GroupBest *best, u32 *arrivals) {
  static_assert(sizeof(SampleStorage<Config>) <= kStaticSharedBytes);
  auto &shared = sharedStorage<SampleStorage<Config>>();
  const u32 b = blockIndexY();
  const auto choice = RowChoice::of<Config>(state.settings[b], state.rows[b], 0);
  logits += i64(b) * Config::kPitch;
  best += i64(b) * RowShape<Config>::kGroups;
  findBest<Config>(logits, choice, best);
  if (choice.isFinished) {
    if (blockIndexX() == 0 && threadIndex() == 0)
      state.publish(b, kNoToken);
    return;
  }
  if (!arrivesLast(arrivals + b, int(gridBlocksX()), shared.isLast))
    return;
  const i32 token = chooseToken<Config>(logits, best, choice.way, choice.noise, shared.row);
  if (threadIndex() == 0)
    state.take(b, token);
}

} // namespace kiln
