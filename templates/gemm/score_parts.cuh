//===- score_parts.cuh - scores of the rows of a product, part by part ----------------===//
//
// Shared by the products whose columns are a vocabulary of kCols tokens and whose sums, the logits, are not stored.
// Each row has `count` parts, one for each stretch of columns that a warp multiplies: a score (norm/row_score.cuh) that
// the four lanes of the row write together. When all parts of some rows are there, warps merge them, always in the same
// order.
//
// A lane has columns 0 to 7 of each 32 from its first one on, in two rows of each 16, 8 apart: the layout of the sums
// of gemm/mma_tiled.cuh and gemm/wgmma_tiled.cuh.
//
// Memory: `count` scores of 16 bytes for each row.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "device/base.cuh"
#include "device/index.cuh"
#include "device/vec.cuh"
#include "norm/row_score.cuh"

namespace kiln {

template <int kCols> struct ScoreParts {
  RowScore *parts;
  const int rows, count;

  /// Where part number `part` of a row is. The parts of neighbouring rows are neighbours.
  KILN_DEVICE float *placeOf(int part, int row) const {
    return reinterpret_cast<float *>(parts + i64(part) * rows + row);
  }
  KILN_DEVICE RowScore read(int part, int row) const {
    const Vec<float, 4> words = load<4>(placeOf(part, row));
    return {words[0], words[1], bitCast<int>(words[2]), words[3]};
  }

  /// The ids of a lane's columns, from its first one on.
  KILN_DEVICE static constexpr int offsetOf(int i) { return i / 8 * 32 + i % 8; }

  /// Adds to a score the kCount columns that this lane has of a row; `col` is the first. logitOf(i) is the sum of the
  /// i-th. kWhole: all of these columns are tokens.
  template <bool kWhole, int kCount, class LogitOf>
  KILN_DEVICE static void add(RowScore &score, int col, int target, const LogitOf &logitOf) {
    float logits[kCount];
#pragma unroll
    for (int i = 0; i < kCount; ++i)
      logits[i] = kWhole || offsetOf(i) < kCols - col ? logitOf(i) : -infinity();
    score.add(logits, col, offsetOf, target);
  }

  /// Writes a part of a row from the scores of the four lanes that share it. All lanes of the warp call this.
  KILN_DEVICE void write(int part, int row, const RowScore &own) const {
    const RowScore score = own.mergedWithLane(1).mergedWithLane(2);
    if (laneIndex() % 4 == 0 && row < rows)
      store(placeOf(part, row), Vec<float, 4>{{score.largest, score.sum, bitCast<float>(score.best), score.target}});
  }

  /// Merges the parts of kGroups groups of 16 rows, `distance` rows apart, and passes the results to the epilogue. A
  /// warp calls this; two lanes share a row: one has the even parts, the other the odd ones.
  template <int kGroups, class Epilogue> KILN_DEVICE void merge(int first, int distance,
                                                                const Epilogue &epilogue) const {
    const int firstRow = first + int(laneIndex()) % 16;
    RowScore scores[kGroups];
#pragma unroll
    for (int group = 0; group < kGroups; ++group)
      scores[group] = RowScore::none();
    // Many loads at a time: nothing hides their latency.
#pragma unroll 8
    for (int part = int(laneIndex()) / 16; part < count; part += 2)
#pragma unroll
      for (int group = 0; group < kGroups; ++group)
        scores[group] = RowScore::merged(scores[group], read(part, min(firstRow + group * distance, rows - 1)));
#pragma unroll
    for (int group = 0; group < kGroups; ++group) {
      const int row = firstRow + group * distance;
      const RowScore score = scores[group].mergedWithLane(16);
      if (laneIndex() < 16 && row < rows)
        epilogue(score.finish(epilogue.target(row), kCols), row);
    }
  }
};

} // namespace kiln
