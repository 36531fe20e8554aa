//===- group_statistics.cuh - statistics of rows by groups of 8 columns ------------===//
//
// The statistics of norm/row_statistics.cuh in two steps: the kernel that makes rows hands out the mean of each group
// of 8 columns and the sum of the squared deviations from it; a kernel that needs the statistics of whole rows merges
// those of the groups (Chan, Golub, LeVeque: Updating formulae and a pairwise algorithm for computing sample variances,
// 1979). Neither step subtracts large squares. Groups are the same whatever the tiles of both kernels are, and their
// statistics have the same bits whether one thread has the 8 columns or four have two each.
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
#include "shape.cuh"

namespace kiln {

constexpr int kGroupColumns = 8;

struct GroupStatistics {
  float mean;
  float squares; ///< the sum of the squared deviations
};

KILN_DEVICE float quadSum(float value) { return warpReduce<Sum, 4>(value, kAllLanes, Site::current()); }

/// The sum of two elements, and of their squares.
KILN_DEVICE float pairSum(float a, float b) { return a + b; }
KILN_DEVICE float pairSquares(float a, float b) { return fma(b, b, a * a); }

/// The statistics of a group of which each lane of the quad has 2 columns.
KILN_DEVICE GroupStatistics groupStatistics(const Vec<float, 2> &values) {
  const float mean = quadSum(pairSum(values[0], values[1])) / float(kGroupColumns);
  return {mean, quadSum(pairSquares(values[0] - mean, values[1] - mean))};
}

/// The same of a group that one thread has. The sums are in the order of quadSum.
KILN_DEVICE GroupStatistics groupStatistics(const Vec<float, 8> &v) {
  const float sum = (pairSum(v[0], v[1]) + pairSum(v[4], v[5])) + (pairSum(v[2], v[3]) + pairSum(v[6], v[7]));
  const float mean = sum / float(kGroupColumns);
  const auto d = v - mean;
  return {mean,
          (pairSquares(d[0], d[1]) + pairSquares(d[4], d[5])) + (pairSquares(d[2], d[3]) + pairSquares(d[6], d[7]))};
}

/// The groups of a row that a lane of the quad has: kVector neighbours at a time.
template <int kGroups> struct LaneGroups {
  static constexpr int kVector = widestVector(kGroups, 4), kVectors = ceilDiv(kGroups, 4 * kVector);
  Vec<float, kVector> of[kVectors];

  KILN_DEVICE static int first(int i) { return (i * 4 + int(laneIndex()) % 4) * kVector; }
  KILN_DEVICE static bool exists(int i) { return kGroups % (4 * kVector) == 0 || first(i) < kGroups; }

  KILN_DEVICE explicit LaneGroups(const float *groups) {
#pragma unroll
    for (int i = 0; i < kVectors; ++i)
      of[i] = exists(i) ? load<kVector>(groups + first(i)) : Vec<float, kVector>{};
  }
};

/// Σ term(i, v) over the groups of a row: the v-th of the lane's i-th vector.
template <int kGroups, class Term> KILN_DEVICE float sumOfGroups(Term term) {
  using Lane = LaneGroups<kGroups>;
  float sums[Lane::kVector] = {};
#pragma unroll
  for (int i = 0; i < Lane::kVectors; ++i)
    if (Lane::exists(i))
#pragma unroll
      for (int v = 0; v < Lane::kVector; ++v)
        sums[v] += term(i, v);
  float sum = sums[0];
#pragma unroll
  for (int v = 1; v < Lane::kVector; ++v)
    sum += sums[v];
  return quadSum(sum);
}

/// The mean of a row from the means of its groups.
template <int kGroups> KILN_DEVICE float meanOfGroups(const LaneGroups<kGroups> &means) {
  constexpr float kShare = 1.0f / float(kGroups);
  return sumOfGroups<kGroups>([&](int i, int v) { return means.of[i][v]; }) * kShare;
}

/// 1 / √(variance + eps) of a row of this mean.
template <int kGroups>
KILN_DEVICE float rstdOfGroups(const LaneGroups<kGroups> &squares, const LaneGroups<kGroups> &means, float mean,
                               float eps) {
  constexpr float kShare = 1.0f / float(kGroups * kGroupColumns);
  const float sum = sumOfGroups<kGroups>([&](int i, int v) {
    const float deviation = means.of[i][v] - mean;
    return fma(float(kGroupColumns) * deviation, deviation, squares.of[i][v]);
  });
  return rsqrt(fma(sum, kShare, eps));
}

} // namespace kiln
