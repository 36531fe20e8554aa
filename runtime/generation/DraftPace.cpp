#include "runtime/generation/DraftPace.h"

namespace kiln {

void DraftPace::note(int64_t guesses, int64_t accepted) {
  if (!length.isAuto)
    return;
  if (guesses == 0) {
    waiting = std::max<int64_t>(waiting - 1, 0);
    return;
  }
  if (accepted > 0)
    pause = shortestPause;
  if (accepted == guesses) {
    next = std::min(next + 1, length.most);
  } else if (accepted == 0 && next > 1) {
    next /= 2;
  } else if (accepted == 0) {
    waiting = pause;
    pause = std::min(2 * pause, longestPause);
  }
}

} // namespace kiln
