//===- Reasons.h - reasons why rungs are slower on a GPU ------------------===//
#pragma once

#include "tools/ladder/Rungs.h"

namespace kiln {

/// Why rungs are slower than the rung below on one GPU, from graphs/targets/*.ladder.toml. On another GPU they may be
/// faster, or slower for other reasons.
struct LadderReasons {
  struct Reason {
    std::vector<std::string> parts, rungs; ///< by their names
    std::string why;
  };

  std::string device; ///< as Device::model returns it: `NVIDIA H200`
  std::vector<Reason> reasons;

  /// Why a part's rung is slower; empty: not known.
  StringRef why(StringRef part, StringRef rung) const;
};

/// The reasons of every device that has some.
ArrayRef<LadderReasons> allLadderReasons();

/// The reasons of the device of that name, or null.
const LadderReasons *findLadderReasons(StringRef device);

} // namespace kiln
