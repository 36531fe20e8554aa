//===- state.cuh - sampling's memory on the device ----------------------------===//
//
// What the host writes once and the kernel of sample/sample.cuh carries from step to step; the runtime includes
// this file too.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "device/base.cuh"

namespace kiln {

constexpr int kMaxStopTokens = 8;

/// The same for all rows.
struct SamplingSettings {
  u64 seed;
  u64 topP;    ///< in units of 2^-64; 0: off
  float scale; ///< 2^24 / (temperature ln 2), finite
  u32 isGreedy;
  i32 topK;      ///< 0: off
  i32 context;   ///< positions that a row has
  i32 stopCount; ///< of stopTokens
  i32 stopTokens[kMaxStopTokens];
  u32 padding;
};
static_assert(sizeof(SamplingSettings) == 72, "the plan's %settings");

/// A row of the batch.
struct SamplingRow {
  u64 sequence;   ///< counter of its random numbers
  u64 step;       ///< tokens chosen so far
  i32 remaining;  ///< tokens that it may still choose
  u32 isFinished; ///< nothing more is chosen
};
static_assert(sizeof(SamplingRow) == 24, "the plan's %rows");

/// In place of a token: the row is finished; its logits had NaN or +infinity, or nothing but -infinity.
constexpr i32 kNoToken = -1, kNotFinite = -2, kAllMasked = -3;

/// What a launch leaves in the ring for a row: the number of the row's launch, from 1, above the token, as one
/// word, so that the host sees both or neither.
KILN_DEVICE constexpr u64 ringEntry(u32 launch, i32 token) { return u64(launch) << 32 | u32(token); }

} // namespace kiln
