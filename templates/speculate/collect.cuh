//===- collect.cuh - the guesses of a model ------------------------------------===//
//
// Takes the choices of a draft since speculate/follow.cuh as the guesses of a pass.
//
// Launch: grid (B), block 32.
//
// Memory: tokens[B] and positions[B] as of SequenceState; draft_recent[B][kRecent] and draft_launches[B] are `recent`
// and `launches` of the draft. Results: as of speculate/ngram.cuh. Places behind the guesses get token 0, which is as
// right as any.
//
// Config:
//   kContext     the most positions of a row
//   kTokens      as of speculate/accept.cuh; at most kRecent
//
//===----------------------------------------------------------------------===//
#pragma once

#include "device/index.cuh"
#include "speculate/places.cuh"

namespace kiln {

/// The kernel's body.
template <class Config>
KILN_DEVICE void collectGuesses(const i32 *tokens, const i32 *positions, const i32 *draftRecent,
                                const u32 *draftLaunches, i32 *guesses, i32 *starts) {
  static_assert(Config::kTokens <= kRecent);
  const u32 b = blockIndexX();
  guesses += b * Config::kTokens;
  for (u32 i = threadIndex(); i < u32(Config::kTokens); i += blockThreads()) {
    const i32 guess = i > 0 && i <= draftLaunches[b] ? draftRecent[i64(b) * kRecent + i] : 0;
    guesses[i] = i == 0 ? tokens[b] : max(guess, 0);
  }
  if (threadIndex() == 0)
    starts[b] = passPosition<Config>(positions[b]);
}

} // namespace kiln
