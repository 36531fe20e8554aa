//===- Reasons.h - why rungs are slower on a GPU ----------------------------===//
#pragma once

#include "tools/ladder/Rungs.h"

namespace kiln {

/// Why rungs were found to be slower than the rung below on one GPU: a graphs/targets/*.ladder.toml. On another GPU
/// they may be faster, or slower for other reasons.
struct LadderReasons {
  struct Reason {
    std::vector<std::string> parts, rungs; ///< by their names
    std::string why;
  };

  std::string device; ///< as Device::model has it: `NVIDIA H200`
  std::vector<Reason> reasons;

  /// Why a part's rung is slower; empty: not known.
  StringRef why(StringRef part, StringRef rung) const;
};

/// Those of every device that there are some of.
ArrayRef<LadderReasons> allLadderReasons();

/// Those of the device of that name, or null.
const LadderReasons *findLadderReasons(StringRef device);

} // namespace kiln
