//===- StopStrings.h - ending a stream of text at a string ------------------===//
#pragma once

#include "support/ADT.h"

namespace kiln {

/// Passes text on until it contains one of several strings. Text that may be the beginning of a stop string is held
/// back, so that no part of a stop string is ever passed on. The result does not depend on how the text is cut into
/// pieces: the stop string that is complete first ends the text, and the longest one if several are complete at the
/// same place.
class StopStrings {
public:
  /// None of the strings is empty; there may be none at all.
  explicit StopStrings(ArrayRef<std::string> strings) : strings(strings.vec()) {}

  /// Takes a piece and returns the text that is now certain. Nothing more comes out once a stop string is
  /// found.
  std::string push(StringRef piece);

  /// Returns the text that is still held back when the text ends.
  std::string finish() { return std::exchange(pending, {}); }

  bool isStopped() const { return stopped; }

private:
  size_t possibleStartLength() const;

  std::vector<std::string> strings;
  std::string pending;
  bool stopped = false;
};

} // namespace kiln
