//===- row_statistics.cuh - mean and reciprocal standard deviation of rows ---===//
//
// The statistics of layer normalisation: mean = Σ x / n, rstd = 1 / √(Σ (x − mean)² / n + eps), in fp32. The biased
// variance is computed around the mean in a second pass over the row (Ba, Kiros, Hinton: Layer Normalization, 2016;
// PyTorch has the same definition), because E[x²] − E[x]² loses all digits if the mean is large compared with the
// deviation.
//
// Input is a functor with
//   static constexpr float kEps;
//   template <int V> Vec<float, V> load(int row, int k) const;   // x[row, k .. k + V), k a multiple of V
// and is called for the same element twice, so it must not write.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "device/base.cuh"
#include "device/index.cuh"
#include "device/math.cuh"
#include "device/vec.cuh"
#include "device/warp.cuh"
#include "shape.cuh"

namespace kiln {

struct RowStatistics {
  float mean;
  float rstd;
};

/// Σ (values[i] − mean)².
template <int V> KILN_DEVICE float squaredDeviation(const Vec<float, V> &values, float mean) {
  const auto deviation = values - mean;
  return (deviation * deviation).sum();
}

KILN_DEVICE RowStatistics rowStatistics(float mean, float squares, int depth, float eps) {
  return {mean, rsqrt(squares / float(depth) + eps)};
}

/// The statistics of kRows consecutive rows of `depth` elements. All lanes of one warp compute them together, and every
/// lane gets every result. The rows go through each pass together, so that each lane has kRows loads in flight. Rows
/// after lastRow repeat lastRow. V divides depth.
template <int V, int kRows, class Input>
KILN_DEVICE void warpRowStatistics(const Input &input, int firstRow, int lastRow, int depth,
                                   RowStatistics (&statistics)[kRows]) {
  float sums[kRows] = {};
  for (int k = int(laneIndex()) * V; k < depth; k += int(kWarpSize) * V)
    for (int r = 0; r < kRows; ++r)
      sums[r] += input.template load<V>(min(firstRow + r, lastRow), k).sum();

  float means[kRows], squares[kRows] = {};
  for (int r = 0; r < kRows; ++r)
    means[r] = warpSum(sums[r]) / float(depth);
  for (int k = int(laneIndex()) * V; k < depth; k += int(kWarpSize) * V)
    for (int r = 0; r < kRows; ++r)
      squares[r] += squaredDeviation(input.template load<V>(min(firstRow + r, lastRow), k), means[r]);
  for (int r = 0; r < kRows; ++r)
    statistics[r] = rowStatistics(means[r], warpSum(squares[r]), depth, Input::kEps);
}

/// The statistics of rows firstRow .. firstRow + kRows − 1 for a whole block, in shared memory. Each warp computes
/// kRowsAtOnce rows at a time. The caller synchronises before it reads them. The block must consist of whole warps.
template <int V, int kRowsAtOnce, int kRows, int kWarps, class Input>
KILN_DEVICE void blockRowStatistics(const Input &input, int firstRow, int lastRow, int depth,
                                    RowStatistics (&statistics)[kRows]) {
  static_assert(kRows % kRowsAtOnce == 0, "kRowsAtOnce divides kRows");
  for (int r = int(warpIndex()) * kRowsAtOnce; r < kRows; r += kWarps * kRowsAtOnce) {
    RowStatistics own[kRowsAtOnce];
    warpRowStatistics<V>(input, firstRow + r, lastRow, depth, own);
    if (laneIndex() == 0)
      for (int i = 0; i < kRowsAtOnce; ++i)
        statistics[r + i] = own[i];
  }
}

/// The statistics of one row, computed by a single thread.
template <class Input> KILN_DEVICE RowStatistics threadRowStatistics(const Input &input, int row, int depth) {
  float sum = 0, squares = 0;
  for (int k = 0; k < depth; ++k)
    sum += input.template load<1>(row, k)[0];
  const float mean = sum / float(depth);
  for (int k = 0; k < depth; ++k)
    squares += squaredDeviation(input.template load<1>(row, k), mean);
  return rowStatistics(mean, squares, depth, Input::kEps);
}

} // namespace kiln
