//===- Nearest.h - the name that the user probably meant ------------------===//
#pragma once

#include "support/ADT.h"

namespace kiln {

/// The end of a message about an unknown word: `; did you mean 'run'?` with the nearest name, the first one of several.
/// Empty if no name is within a third of the word's letters.
template <class Names> std::string didYouMean(StringRef word, const Names &names) {
  unsigned least = static_cast<unsigned>(word.size() + 2) / 3 + 1;
  StringRef nearest;
  for (const auto &name : names) {
    unsigned distance = word.edit_distance(name, /*AllowReplacements=*/true, least);
    if (distance < least) {
      least = distance;
      nearest = name;
    }
  }
  return nearest.empty() ? "" : ("; did you mean '" + nearest + "'?").str();
}

} // namespace kiln
