//===- RankSplit.h - how a dimension is dealt out to ranks ------------------===//
//
// Tensor parallelism: each of several ranks (one for each GPU) keeps a share of a tensor. Weight recipes, ops and the
// pass shard-tensors deal out by this one rule.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "support/ADT.h"

namespace kiln {

/// The most GPUs that may share a model.
constexpr int64_t mostRanks = 64;

/// Deals out the units of a dimension in order: where the ranks do not divide them, the first ranks get one more (25
/// heads: 13 + 12, or 7 + 6 + 6 + 6). All ranks have room for as many as the first, so that extents are the same on all
/// of them; what a rank does not fill is zero.
struct RankSplit {
  int64_t ranks = 2;
  bool ofRows = false; ///< of a matrix's first dimension; false: of the last dimension
  int64_t unit = 1;    ///< elements that stay together, such as a head's columns
  int64_t parts = 1;   ///< parts that lie side by side, each dealt out by itself: query, key and value

  /// A run of elements that a rank keeps: where they begin in the whole dimension and in the rank's.
  struct Run {
    int64_t from, to, count;
  };

  /// Describes why an extent cannot be dealt out so. Empty: it can.
  std::string problem(int64_t extent) const;

  // The following are for extents without a problem().

  /// The extent on every rank.
  int64_t room(int64_t extent) const;
  /// What a rank, from 0 to ranks - 1, keeps: a run of each part.
  SmallVector<Run, 3> runs(int64_t extent, int64_t rank) const;

  bool operator==(const RankSplit &) const = default;
};

} // namespace kiln
