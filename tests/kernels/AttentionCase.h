//===- AttentionCase.h - a case of the tests of attention kernels ---------===//
#pragma once

#include "kernels/Variant.h"

namespace kiln {

/// A kernel and its sequences: `position` of the first query of each row of the batch.
struct AttentionCase {
  Variant kernel;
  int heads, queries, keys;
  std::vector<int> positions;
};

/// Lets googletest name a case.
inline void PrintTo(const AttentionCase &c, std::ostream *os) {
  *os << c.kernel.label() << ", " << c.queries << " queries";
}

} // namespace kiln
