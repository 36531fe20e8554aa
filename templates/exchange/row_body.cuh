//===- row_body.cuh - what becomes of sums over ranks, row by row ---------------------------===//
//
// The functor of templates that add up rows over all ranks:
//
//   template <int V> struct Operands;
//   template <int V> Operands<V> operands(int row, int col) const;
//     What is added to columns col .. col + V of a row: it is loaded together with the parts.
//   template <int V> void operator()(Vec<float, V> sum, const Operands<V> &with, int row, int col) const;
//     Stores the results.
//
// It may take the statistics of whole rows of its results (norm/row_statistics.cuh):
//
//   using Row = bf16;                                      the type that the results are stored in
//   static constexpr float kEps;
//   void statistics(RowStatistics s, int row) const;       called once a row
//
// Then operator() returns the results.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "device/base.cuh"
#include "device/index.cuh"
#include "device/vec.cuh"
#include "epilogue.cuh"
#include "norm/row_statistics.cuh"

namespace kiln {

/// The type of a row whose statistics a body takes. Without statistics, it is some type.
template <class Body, class = void> struct StatisticsOfRows {
  using Type = bf16;
  static constexpr bool kExist = false;

  template <int V, class Operands, class Kept>
  KILN_DEVICE static void pass(const Body &body, const Vec<float, V> &sum, const Operands &with, int row, int col,
                               Kept &) {
    body(sum, with, row, col);
  }
};
template <class Body> struct StatisticsOfRows<Body, typename Exists<typename Body::Row>::Type> {
  using Type = typename Body::Row;
  static constexpr bool kExist = true;

  /// Passes a sum to the body, and keeps the results as they are stored.
  template <int V, class Operands, class Kept>
  KILN_DEVICE static void pass(const Body &body, const Vec<float, V> &sum, const Operands &with, int row, int col,
                               Kept &kept) {
    kept = pack<Type>(body(sum, with, row, col));
  }
};

/// Hands the statistics of a row of its results to the body. All lanes of a warp call it; `results`: as
/// norm/row_of_warp.cuh has a row.
template <class Body, class Results>
KILN_DEVICE void passStatistics(const Body &body, const Results &results, int row) {
  const float mean = results.mean();
  const RowStatistics statistics = {mean, results.rstd(mean, Body::kEps)};
  if (laneIndex() == 0)
    body.statistics(statistics, row);
}

} // namespace kiln
