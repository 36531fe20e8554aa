//===- Nearest.h - the name that was probably meant -------------------------===//
#pragma once

#include "support/ADT.h"

namespace kiln {

/// `; did you mean 'run'?` for the end of a message about a word that is nearly one of these names; nothing where no
/// name is within a third of its letters. Of names that are equally near, the first.
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
