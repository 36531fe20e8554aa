//===- row_of_warp.cuh - the statistics of a row, by a warp ------------------------===//
//
// The statistics of norm/row_statistics.cuh of one row in global or shared memory, computed by all lanes of a warp,
// with the bits that norm/statistics_of_rows.cuh gives a row that has a warp: lane i adds the vectors i, i + 32, … of
// the row. A lane asks for kAtOnce vectors at a time. It reads the row twice, the second time from L1: beside a matrix
// product, a warp has no registers to keep it. Where it has, HeldRow keeps the row. copyRow brings a row to shared
// memory, each lane what it will read itself.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "device/async_copy.cuh"
#include "device/base.cuh"
#include "device/index.cuh"
#include "device/vec.cuh"
#include "device/warp.cuh"
#include "norm/row_statistics.cuh"
#include "shape.cuh"

namespace kiln {

/// The mean of a row of kCols elements; row.sumOf(term) gives all lanes Σ term(vector), over its vectors of V.
template <int kCols, int V, class Row> KILN_DEVICE float meanOfRow(const Row &row) {
  return row.sumOf([](const Vec<float, V> &values) { return values.sum(); }) / float(kCols);
}
/// 1 / √(variance + eps) of the row, around this mean.
template <int kCols, int V, class Row> KILN_DEVICE float rstdOfRow(const Row &row, float mean, float eps) {
  const float squares = row.sumOf([=](const Vec<float, V> &values) { return squaredDeviation(values, mean); });
  return rowStatistics(mean, squares, kCols, eps).rstd;
}

/// A row of kCols elements that the lanes of a warp hold: `of[i]` of a lane is its i-th vector. All lanes call each
/// function together, and get its result.
template <class T, int kCols, int V = widestVector(kCols, 8)> struct HeldRow {
  static constexpr int kVectors = kCols / V, kLanes = int(kWarpSize), kTrips = ceilDiv(kVectors, kLanes);
  Packed<T, V> of[kTrips];

  /// Whether the lane has an i-th vector, and its first column.
  KILN_DEVICE static bool exists(int i) {
    return (i + 1) * kLanes <= kVectors || (i < kTrips && int(laneIndex()) + i * kLanes < kVectors);
  }
  KILN_DEVICE static int col(int i) { return (int(laneIndex()) + i * kLanes) * V; }

  KILN_DEVICE void load(const T *row) {
#pragma unroll
    for (int i = 0; i < kTrips; ++i)
      if (exists(i))
        of[i] = loadPacked<V>(row + col(i));
  }
  template <class Term> KILN_DEVICE float sumOf(Term term) const {
    float sum = 0;
#pragma unroll
    for (int i = 0; i < kTrips; ++i)
      if (exists(i))
        sum += term(of[i].unpack());
    return warpSum(sum);
  }
  KILN_DEVICE float mean() const { return meanOfRow<kCols, V>(*this); }
  KILN_DEVICE float rstd(float mean, float eps) const { return rstdOfRow<kCols, V>(*this, mean, eps); }
};

/// The same of a row in memory.
template <class T, int kCols, int kAtOnce> struct RowOfWarp {
  using Held = HeldRow<T, kCols>;
  static constexpr int V = widestVector(kCols, 8), kVectors = kCols / V, kLanes = int(kWarpSize);
  /// Whether every lane has the same number of vectors, and asks for all at once.
  static constexpr bool kIsWhole = kVectors % kLanes == 0 && kVectors <= kAtOnce * kLanes;

  const T *const row;
  KILN_DEVICE explicit RowOfWarp(const T *row) : row(row) {}

  KILN_DEVICE static bool exists(int first, int i) {
    return kIsWhole ? i < kVectors / kLanes : first + i * kLanes < kVectors;
  }

  /// Σ term(vector).
  template <class Term> KILN_DEVICE float sumOf(Term term) const {
    float sum = 0;
#pragma unroll 1
    for (int first = int(laneIndex()); first < kVectors; first += kAtOnce * kLanes) {
      Packed<T, V> vectors[kAtOnce];
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i)
        if (exists(first, i))
          vectors[i] = loadPacked<V>(row + (first + i * kLanes) * V);
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i)
        if (exists(first, i))
          sum += term(vectors[i].unpack());
    }
    return warpSum(sum);
  }

  KILN_DEVICE float mean() const { return meanOfRow<kCols, V>(*this); }
  /// 1 / √(variance + eps), around this mean.
  KILN_DEVICE float rstd(float mean, float eps) const { return rstdOfRow<kCols, V>(*this, mean, eps); }
};

/// Starts a copy of a row of kCols elements, a multiple of 8, to shared memory. It is a group of copies of each lane,
/// which reads nothing of the row but what its own copies bring. Without a row it is an empty group.
template <int kCols, class T> KILN_DEVICE void copyRow(T *to, const T *from, bool exists) {
  static_assert(kCols % 8 == 0 && sizeof(T) == 2, "vectors of 16 bytes");
  if (exists)
#pragma unroll 1
    for (int vector = int(laneIndex()); vector < kCols / 8; vector += int(kWarpSize))
      copyAsync(SharedAddress(to + vector * 8), from + vector * 8);
  commitAsyncCopies();
}

} // namespace kiln
