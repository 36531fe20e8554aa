//===- Halves.h - calls of several ranks as two halves of their sequences ---===//
//
// Large calls of several ranks run as two halves of their sequences side by side, so that a sum over ranks of one half
// crosses the link while the tensor cores multiply the other half (Plan::halvedRows). Products then leave some
// multiprocessors to the sum, which has few but large blocks.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "ir/IR.h"

namespace kiln {

/// Tokens of a call that gains from it: products of fewer use tensor cores worse.
constexpr int64_t fewestHalvedRows = 1024;
/// Rows of a product for which tiles are chosen as for halves. Those of fewer may be of one sequence, which has the
/// whole GPU.
constexpr int64_t fewestRowsBesideExchange = 2048;

/// Whether the op's module is for several ranks.
inline bool canHideExchanges(const Op &op) { return op.parent()->function()->module().ranks() > 1; }

/// Blocks of the sum, each of which takes a multiprocessor: with more, products take longer than the sums that they
/// hide. More ranks send more parts, and their products are shorter: 8 x 1024 tokens of 1558M take 17.6 ms with 8
/// blocks and 16.6 with 12 on four H200, 25.7 and 26.1 on two.
inline int64_t blocksOfHiddenExchange(const Op &op) { return op.parent()->function()->module().ranks() > 2 ? 12 : 8; }

} // namespace kiln
