//===- state.cuh - sampling's memory on the device ----------------------------===//
//
// The state that the host writes once and the kernel of sample/sample.cuh updates at each step; the runtime includes
// this file too.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "device/base.cuh"

namespace kiln {

constexpr int kMaxStopTokens = 8;

/// The settings of a row.
struct SamplingSettings {
  u64 seed;
  u64 topP;    ///< in units of 2^-64; 0: off
  float scale; ///< 2^24 / (temperature ln 2), finite
  u32 isGreedy;
  i32 topK;      ///< 0: off
  i32 context;   ///< the most positions of a row
  i32 stopCount; ///< entries of stopTokens
  i32 stopTokens[kMaxStopTokens];
  u32 mostExponent; ///< of min-p, as in TokenDraw
};
static_assert(sizeof(SamplingSettings) == 72, "the plan's %settings, of a row");

/// The state of a row of the batch.
struct SamplingRow {
  u64 sequence;   ///< of NoiseKey
  u64 position;   ///< of NoiseKey. Unlike @decode's positions it goes on when a window of the text is evaluated again
  i32 remaining;  ///< tokens that it may still choose
  u32 isFinished; ///< the row chooses no further tokens
};
static_assert(sizeof(SamplingRow) == 24, "the plan's %rows");

/// The choices of a row that the device remembers: number n is entry n % kRecent.
constexpr int kRecent = 64;

/// Values in place of a token: none was chosen, since the row is finished or a guess was wrong; its logits contain NaN
/// or +infinity; all its logits are -infinity.
constexpr i32 kNoToken = -1, kNotFinite = -2, kAllMasked = -3;

/// The word in a row's ring for a choice: its number, from 1, in the upper half and the token in the lower. One word,
/// so that the host sees both or neither.
KILN_DEVICE constexpr u64 ringEntry(u32 choice, i32 token) { return u64(choice) << 32 | u32(token); }

} // namespace kiln
