//===- accept.cuh - choosing tokens as long as guesses are right ---------------===//
//
// @verify has evaluated each row's last token and guesses of the next ones. A token is chosen from each of these
// logits, as @sample would choose it there. Up to the first that is not the guess in its place, they are the row's next
// tokens: at least one, at most kTokens. The others are forgotten: their entries of the cache are overwritten before
// they are read.
//
// Method: as of sample/sample.cuh for each place of a row, all of them side by side. The last place to arrive compares
// the tokens with the guesses.
//
// Launch: grid (blocks, kTokens, B) with blocks as of sample/sample.cuh, block kThreads.
//
// Memory: logits[B][kTokens][kPitch]. guesses[B][kTokens], of which the first is the row's last token. The state of the
// rows, as of SequenceState: each pass makes kTokens choices known, kNoToken for those that are forgotten.
// best[B][kTokens][groups] and chosen[B][kTokens] may have any contents. arrivals[B][kTokens + 1] is zero before and
// after.
//
// Config: as of sample/sample.cuh, and
//   kTokens      places of a row: the last token and the guesses
//
//===----------------------------------------------------------------------===//
#pragma once

#include "arrivals.cuh"
#include "sample/sample.cuh"

namespace kiln {

/// Takes chosen tokens as long as the guesses before them are right. One thread calls this.
template <class Config>
KILN_DEVICE void takeAccepted(const SequenceState<Config> &state, u32 b, const i32 *guesses, const i32 *chosen) {
  int taken = 0;
  bool goesOn = true;
  while (goesOn) {
    const i32 token = chosen[taken];
    state.take(b, token);
    ++taken;
    goesOn = taken < Config::kTokens && state.rows[b].isFinished == 0 && token == guesses[taken];
  }
  for (; taken < Config::kTokens; ++taken)
    state.publish(b, kNoToken);
}

/// The kernel's body.
template <class Config>
KILN_DEVICE void accept(const float *logits, const i32 *guesses, const SequenceState<Config> &state, GroupBest *best,
                        i32 *chosen, u32 *arrivals) {
  static_assert(sizeof(SampleStorage<Config>) <= kStaticSharedBytes);
  auto &shared = sharedStorage<SampleStorage<Config>>();
  const u32 b = blockIndexZ(), place = blockIndexY();
  const u32 index = b * Config::kTokens + place;
  const auto choice = RowChoice::of<Config>(state.settings[b], state.rows[b], place);
  logits += i64(index) * Config::kPitch;
  best += i64(index) * RowShape<Config>::kGroups;
  findBest<Config>(logits, choice, best);
  if (choice.isFinished) {
    if (blockIndexX() == 0 && place == 0 && threadIndex() == 0)
      for (int i = 0; i < Config::kTokens; ++i)
        state.publish(b, kNoToken);
    return;
  }
  arrivals += b * (Config::kTokens + 1);
  if (!arrivesLast(arrivals + place, int(gridBlocksX()), shared.isLast))
    return;
  const i32 token = chooseToken<Config>(logits, best, choice.way, choice.noise, shared.row);
  if (threadIndex() == 0)
    chosen[index] = token;
  if (!arrivesLast(arrivals + Config::kTokens, Config::kTokens, shared.isLast))
    return;
  if (threadIndex() == 0)
    takeAccepted(state, b, guesses + b * Config::kTokens, chosen + b * Config::kTokens);
}

} // namespace kiln
