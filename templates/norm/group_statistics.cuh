//===- group_statistics.cuh - statistics of rows by groups of 32 columns -----------===//
//
// The statistics of norm/row_statistics.cuh in two steps: the kernel that makes rows hands out the mean of each group
// of 32 columns and the sum of the squared deviations from it; a kernel that needs the statistics of whole rows merges
// those of the groups (Chan, Golub, LeVeque: Updating formulae and a pairwise algorithm for computing sample variances,
// 1979). Neither step subtracts large squares. Groups are the same whatever the tiles of both kernels are.
//
// Four neighbouring lanes of a warp, a quad, work together, and all of them get each result. All lanes of the warp must
// call these functions at the same place.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "device/base.cuh"
#include "device/index.cuh"
#include "device/math.cuh"
#include "device/vec.cuh"
#include "device/warp.cuh"
#include "norm/row_statistics.cuh"
#include "shape.cuh"

namespace kiln {

constexpr int kGroupColumns = 32;

struct GroupStatistics {
  float mean;
  float squares; ///< the sum of the squared deviations
};

KILN_DEVICE float quadSum(float value) { return warpReduce<Sum, 4>(value, kAllLanes, Site::current()); }

/// The statistics of a group of which each lane of the quad has 8 columns.
KILN_DEVICE GroupStatistics groupStatistics(const Vec<float, 8> &values) {
  const float mean = quadSum(values.sum()) / float(kGroupColumns);
  return {mean, quadSum(squaredDeviation(values, mean))};
}

/// Σ term(g) over the groups of a row.
template <int kGroups, class Term> KILN_DEVICE float sumOfGroups(Term term) {
  float sum = 0;
#pragma unroll
  for (int i = 0; i < ceilDiv(kGroups, 4); ++i) {
    const int group = i * 4 + int(laneIndex()) % 4;
    if (kGroups % 4 == 0 || group < kGroups)
      sum += term(group);
  }
  return quadSum(sum);
}

/// The mean of a row from the means of its groups.
template <int kGroups> KILN_DEVICE float meanOfGroups(const float *means) {
  return sumOfGroups<kGroups>([&](int group) { return means[group]; }) / float(kGroups);
}

/// 1 / √(variance + eps) of a row of this mean.
template <int kGroups>
KILN_DEVICE float rstdOfGroups(const float *squares, const float *means, float mean, float eps) {
  const float sum = sumOfGroups<kGroups>([&](int group) {
    const float deviation = means[group] - mean;
    return squares[group] + float(kGroupColumns) * deviation * deviation;
  });
  return rowStatistics(mean, sum, kGroups * kGroupColumns, eps).rstd;
}

} // namespace kiln
