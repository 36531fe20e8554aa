//===- DraftPace.h - how many tokens to guess ---------------------------------===//
#pragma once

#include "runtime/generation/LanguageModel.h"

namespace kiln {

/// The number of guesses of a row's next pass. With DraftLength::isAuto, one more after a pass of good guesses only,
/// and half as many after a pass of bad guesses only. After the last, the row waits a while before it tries one again,
/// twice as long each time that it is wrong again.
class DraftPace {
public:
  explicit DraftPace(const DraftLength &length)
      : length(length), next(length.isAuto ? std::min(length.most, firstAuto) : length.most) {}

  int64_t count() const { return waiting > 0 ? 0 : next; }
  /// Takes note of a pass.
  void note(int64_t guesses, int64_t accepted);

private:
  static constexpr int64_t firstAuto = 4;
  static constexpr int64_t shortestPause = 16, longestPause = 512; ///< in passes without guesses

  DraftLength length;
  int64_t next;
  int64_t waiting = 0, pause = shortestPause;
};

} // namespace kiln
