//===- DraftPace.h - how many tokens to guess ---------------------------------===//
#pragma once

#include "runtime/generation/LanguageModel.h"

namespace kiln {

/// The number of guesses of a row's next pass. With DraftLength::isAuto, as many as are likely enough to be right, by a
/// running mean of what became of earlier guesses. If not even one is, the row waits before it tries one again, twice
/// as long each time that it is wrong again.
class DraftPace {
public:
  explicit DraftPace(const DraftLength &length) : length(length) {}

  int64_t count() const;
  /// Takes note of a pass.
  void note(int64_t guesses, int64_t accepted);

private:
  /// A guess must be right with this probability: it costs an eighth of a step or so, which may be half of a pass's
  /// share of a token.
  static constexpr double leastChance = 0.25;
  static constexpr double firstRate = 0.6, weight = 0.125;          ///< of the running mean
  static constexpr int64_t shortestPause = 32, longestPause = 1024; ///< in passes without guesses

  bool isHopeless() const { return rate < leastChance; }

  DraftLength length;
  double rate = firstRate; ///< of guesses that are right, if those before them are
  int64_t waiting = 0, pause = shortestPause;
};

} // namespace kiln
