#include "runtime/generation/StopStrings.h"

namespace kiln {

/// The length of the longest suffix of `pending` that is a prefix of a stop string.
size_t StopStrings::possibleStartLength() const {
  size_t longest = 0;
  for (StringRef string : strings)
    for (size_t length = std::min(string.size() - 1, pending.size()); length > longest; --length)
      if (StringRef(pending).ends_with(string.take_front(length)))
        longest = length;
  return longest;
}

std::string StopStrings::push(StringRef piece) {
  if (stopped)
    return {};
  pending += piece;
  size_t firstEnd = StringRef::npos, start = 0;
  for (StringRef string : strings) {
    size_t at = StringRef(pending).find(string);
    if (at == StringRef::npos)
      continue;
    size_t end = at + string.size();
    if (end < firstEnd || (end == firstEnd && at < start)) {
      firstEnd = end;
      start = at;
    }
  }
  stopped = firstEnd != StringRef::npos;
  size_t certain = stopped ? start : pending.size() - possibleStartLength();
  std::string text = pending.substr(0, certain);
  pending.erase(0, stopped ? pending.size() : certain);
  return text;
}

} // namespace kiln
