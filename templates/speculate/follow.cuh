//===- follow.cuh - a model that guesses goes on where the text is --------------===//
//
// A draft decodes and samples like any model, with a state of its own. Before it guesses, its rows get the last token,
// position, and noise of the model's, and it counts its choices from 0 again.
//
// Launch: grid (B), block 32; one thread of each block works.
//
// Memory: tokens[B], positions[B] and rows[B] as of SequenceState; with `draft_` those of the draft, and its
// settings and launches.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "device/index.cuh"
#include "device/math.cuh"
#include "sample/state.cuh"

namespace kiln {

/// The kernel's body. A position that the draft's context does not have becomes its last one: the guesses will be
/// wrong.
KILN_DEVICE void follow(const i32 *tokens, const i32 *positions, const SamplingRow *rows,
                        const SamplingSettings *draftSettings, i32 *draftTokens, i32 *draftPositions,
                        SamplingRow *draftRows, u32 *draftLaunches) {
  const u32 b = blockIndexX();
  if (threadIndex() != 0)
    return;
  draftTokens[b] = tokens[b];
  draftPositions[b] = min(positions[b], draftSettings[b].context - 1);
  draftRows[b] = rows[b];
  draftLaunches[b] = 0;
}

} // namespace kiln
