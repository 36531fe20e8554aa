//===- group_statistics.cuh - statistics of rows by groups of 8 columns ------------===//
//
// The statistics of norm/row_statistics.cuh in two steps: the kernel that makes rows hands out the mean of each group
// of 8 columns and the sum of the squared deviations from it; a kernel that needs the statistics of whole rows merges
// those of the groups (Chan, Golub, LeVeque: Updating formulae and a pairwise algorithm for computing sample variances,
// 1979). Neither step subtracts large squares. Groups are the same whatever the tiles of both kernels are, and their
// statistics have the same bits whether one thread has the 8 columns or four have two each.
//
// Neighbouring lanes of a warp work together, four for the statistics of a group, four or eight for those of a row, and
// all of them get each result; with the same bits, however many they are. All lanes of the warp must call these
// functions at the same place.
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

/// The groups of a row that one of kLanes lanes has, kVector neighbours at a time. There are 8 shares of a row; with
/// fewer lanes, each has several.
template <int kGroups, int kLanes> struct LaneGroups {
  static constexpr int kAllShares = 8, kShares = kAllShares / kLanes;
  static constexpr int kVector = widestVector(kGroups, 4), kVectors = ceilDiv(kGroups, kAllShares *kVector);
  static_assert(kLanes == 4 || kLanes == 8, "lanes of a row");
  Vec<float, kVector> of[kShares][kVectors];

  KILN_DEVICE static int first(int share, int i) {
    return (i * kAllShares + share * kLanes + int(laneIndex()) % kLanes) * kVector;
  }
  KILN_DEVICE static bool exists(int share, int i) {
    return kGroups % (kAllShares * kVector) == 0 || first(share, i) < kGroups;
  }

  KILN_DEVICE explicit LaneGroups(const float *groups) {
#pragma unroll
    for (int share = 0; share < kShares; ++share)
#pragma unroll
      for (int i = 0; i < kVectors; ++i)
        of[share][i] = exists(share, i) ? load<kVector>(groups + first(share, i)) : Vec<float, kVector>{};
  }
};

/// Σ term(share, i, v) over the groups of a row: the v-th of the i-th vector of one of the lane's shares.
template <int kGroups, int kLanes, class Term> KILN_DEVICE float sumOfGroups(Term term) {
  using Lane = LaneGroups<kGroups, kLanes>;
  float sum = 0;
#pragma unroll
  for (int share = 0; share < Lane::kShares; ++share) {
    float sums[Lane::kVector] = {};
#pragma unroll
    for (int i = 0; i < Lane::kVectors; ++i)
      if (Lane::exists(share, i))
#pragma unroll
        for (int v = 0; v < Lane::kVector; ++v)
          sums[v] += term(share, i, v);
#pragma unroll
    for (int v = 1; v < Lane::kVector; ++v)
      sums[0] += sums[v];
    sum = share == 0 ? sums[0] : sum + sums[0]; // as a butterfly over 8 lanes begins
  }
  return warpSum<kLanes>(sum);
}

/// The mean of a row from the means of its groups.
template <int kGroups, int kLanes> KILN_DEVICE float meanOfGroups(const LaneGroups<kGroups, kLanes> &means) {
  constexpr float kShare = 1.0f / float(kGroups);
  return sumOfGroups<kGroups, kLanes>([&](int share, int i, int v) { return means.of[share][i][v]; }) * kShare;
}

/// 1 / √(variance + eps) of a row of this mean.
template <int kGroups, int kLanes>
KILN_DEVICE float rstdOfGroups(const LaneGroups<kGroups, kLanes> &squares, const LaneGroups<kGroups, kLanes> &means,
                               float mean, float eps) {
  constexpr float kShare = 1.0f / float(kGroups * kGroupColumns);
  const float sum = sumOfGroups<kGroups, kLanes>([&](int share, int i, int v) {
    const float deviation = means.of[share][i][v] - mean;
    return fma(float(kGroupColumns) * deviation, deviation, squares.of[share][i][v]);
  });
  return rsqrt(fma(sum, kShare, eps));
}

} // namespace kiln
