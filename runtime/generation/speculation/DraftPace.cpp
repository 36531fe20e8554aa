#include "runtime/generation/speculation/DraftPace.h"

namespace kiln {

int64_t DraftPace::count() const {
  if (!length.isAuto)
    return length.most;
  if (waiting > 0)
    return 0;
  int64_t count = 1;
  for (double chance = rate * rate; count < length.most && chance >= leastChance; chance *= rate)
    ++count;
  return count;
}

void DraftPace::note(int64_t guesses, int64_t accepted) {
  if (guesses == 0) {
    waiting = std::max<int64_t>(waiting - 1, 0);
    return;
  }
  for (int64_t i = 0; i < std::min(accepted + 1, guesses); ++i)
    rate += weight * ((i < accepted ? 1 : 0) - rate);
  if (!isHopeless()) {
    pause = shortestPause;
    return;
  }
  waiting = pause;
  pause = std::min(2 * pause, longestPause);
}

} // namespace kiln
