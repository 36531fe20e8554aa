//===- statistics_of_rows.cuh - mean and reciprocal deviation of each row ------===//
//
// The statistics of norm/row_statistics.cuh for each row of x, which is read once: the first half of layer
// normalisation, for products that normalise their sums afterwards. Threads hold a row as in norm/layernorm.cuh, which
// also describes the launch and Config.
//
// Input:      as there, without normalize
// Epilogue:   void operator()(RowStatistics statistics, int row) const, called once a row
//
//===----------------------------------------------------------------------===//
#pragma once

#include "device/base.cuh"
#include "norm/layernorm.cuh"
#include "norm/row_statistics.cuh"
#include "shape.cuh"

namespace kiln {

template <class Config> constexpr SharedBytes kStatisticsOfRowsShared = kLayerNormShared<Config>;

/// The kernel's body.
template <class Config, class Input, class Epilogue>
KILN_DEVICE void statisticsOfRows(int rows, const Input &input, const Epilogue &epilogue) {
  using Row = LayerNorm<Config, Input>;
  const int row = Row::Threads::row();
  if (row >= rows)
    return;
  Row x{input, row, {}};
  const RowStatistics statistics = statisticsOf(x);
  if (Row::Threads::index() == 0)
    epilogue(statistics, row);
}

} // namespace kiln
