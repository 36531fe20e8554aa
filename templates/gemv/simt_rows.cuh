//===- simt_rows.cuh - matrix product for few rows, bound by the weight's bytes ===//
//
// out[rows, cols] = A[rows, depth] · weight[cols, depth]^T for decode: 1 to 16 rows (more are done kRows at a
// time), fp32 arithmetic on any GPU. A is read through Input, optionally layer normalised; the product leaves
// through Epilogue.
//
// Method: a row-wise matrix-vector product. The weight is read once, in 16-byte vectors, a warp walking along
// the depth of kColsPerWarp columns at once with kUnroll vectors a column and lane in flight; everything else
// is arranged around these loads. The first of them are issued before the block touches the activations, so
// that normalisation and staging hide behind them, and, where the GPU lets a kernel start early, so does the
// end of the kernel before. The rows lie in shared memory as fp32, every block staging
// (and normalising) them for itself: they are tiny.
//
// Launch: grid ceildiv(cols, kWarps · kColsPerWarp), block 32 · kWarps.
//
// Which thread holds what: lane l of a warp has the elements (step · 32 + l) · V .. + V of each of the warp's
// columns, V = 16 bytes of weight (less if depth is not a multiple of that), and kRows × kColsPerWarp partial
// sums. They are reduced over the lanes by halving: at each exchange a lane gives half of its rows away, so
// that it ends with one row's sums; then one lane a row calls the epilogue with the kColsPerWarp columns.
//
// Shared memory: (kRows · kChunk + 2 · kRows) · 4 bytes, kChunk the part of the depth that is staged at once:
// all of it where it fits in 48 KB. With V = 8 (16-bit weights) a lane reads its row elements in two halves,
// which are stored apart so that neighbouring lanes read neighbouring 16 bytes, without bank conflicts.
//
// Registers: 2 · kColsPerWarp · kUnroll · 4 for the weights of this stage and the next, kRows · kColsPerWarp
// sums, (kColsPerWarp + 1) · V operands: 62 for 1 × 2, 124 for 8 × 4 (kRows × kColsPerWarp) in bf16.
//
// Config:
//   kCols, kDepth      extents, constant
//   kRows              rows of a pass, a power of two up to 16
//   kWarps             warps of a block, up to 32
//   kColsPerWarp       1, 2, 4 or 8
//   kUnroll            steps of 32 · V elements whose weights are in flight together
// Input, Epilogue: as for gemm/simt_tiled.cuh. The epilogue's V is the widest power of two that divides
// kColsPerWarp and cols.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "device/base.cuh"
#include "device/block.cuh"
#include "device/grid.cuh"
#include "device/index.cuh"
#include "device/shared.cuh"
#include "device/vec.cuh"
#include "device/warp.cuh"
#include "norm/row_statistics.cuh"
#include "shape.cuh"

namespace kiln {

/// Constants that follow from a Config and the weight's element type.
template <class Config, class W> struct SimtRowsShape {
  static constexpr int kRows = Config::kRows, kColsPerWarp = Config::kColsPerWarp, kUnroll = Config::kUnroll;
  static constexpr int kThreads = Config::kWarps * int(kWarpSize);
  static constexpr int kWeightVec = widestVector(Config::kDepth, 16 / int(sizeof(W)));
  static constexpr int kInputVec = widestVector(Config::kDepth, 4);
  static constexpr int kOutputVec = widestVector(Config::kCols, kColsPerWarp);

  // A step is one vector a lane, a stage kUnroll steps, a chunk the stages whose input is staged together.
  static constexpr int kStep = int(kWarpSize) * kWeightVec;
  static constexpr int kStage = kStep * kUnroll;
  static constexpr int kStages = ceilDiv(Config::kDepth, kStage);
  static constexpr bool kDepthIsExact = Config::kDepth % kStage == 0;
  static constexpr int kRoomForRows = kStaticSharedBytes - kRows * int(sizeof(RowStatistics));
  static constexpr int kStagesPerChunk = min(kStages, kRoomForRows / (kRows * kStage * int(sizeof(float))));
  static constexpr int kChunk = kStagesPerChunk * kStage;

  static_assert(Config::kCols > 0 && Config::kDepth > 0, "the extents are constants");
  static_assert(isPowerOfTwo(kRows) && kRows <= 16, "kRows is a power of two up to 16");
  static_assert(isPowerOfTwo(kColsPerWarp) && kColsPerWarp <= 8, "kColsPerWarp is a power of two up to 8");
  static_assert(Config::kWarps >= 1 && Config::kWarps <= 32 && kUnroll >= 1, "a legal block");
  static_assert(kStagesPerChunk >= 1, "a stage of kRows rows fits in shared memory: fewer rows, or less unrolled");
};

template <class Config, class W> struct SimtRowsStorage {
  using Shape = SimtRowsShape<Config, W>;
  alignas(16) float rows[Shape::kRows][Shape::kChunk];
  RowStatistics statistics[Shape::kRows];
};

/// The work of one warp on its columns.
template <class Config, class Input, class W, class Epilogue> struct SimtRows {
  using Shape = SimtRowsShape<Config, W>;
  static constexpr int kRows = Shape::kRows, kColsPerWarp = Shape::kColsPerWarp, kUnroll = Shape::kUnroll;
  static constexpr int V = Shape::kWeightVec;
  using Weights = Packed<W, V>[kColsPerWarp][kUnroll];

  const Input &input;
  const W *weight;
  const Epilogue &epilogue;
  const int rows;
  SimtRowsStorage<Config, W> &shared;
  const int firstCol = (int(blockIndexX()) * Config::kWarps + int(warpIndex())) * kColsPerWarp;
  float sums[kRows][kColsPerWarp] = {};

  /// Starts the loads of a stage; elements past the depth are zero.
  KILN_DEVICE void fetch(int stage, Weights &weights) const {
#pragma unroll
    for (int c = 0; c < kColsPerWarp; ++c) {
      const W *column = weight + i64(min(firstCol + c, Config::kCols - 1)) * Config::kDepth;
#pragma unroll
      for (int u = 0; u < kUnroll; ++u) {
        const int k = stage * Shape::kStage + u * Shape::kStep + int(laneIndex()) * V;
        weights[c][u] = loadPackedStreamingIf<V>(Shape::kDepthIsExact || k < Config::kDepth, column + k);
      }
    }
  }

  /// The position of element k of the chunk in its shared row: position k, except that where a lane reads 8 elements,
  /// all lanes' first four are stored before all lanes' last four.
  KILN_DEVICE static int staged(int k) {
    if constexpr (V == 8)
      return k / Shape::kStep * Shape::kStep + k % 8 / 4 * (Shape::kStep / 2) + k % Shape::kStep / 8 * 4 + k % 4;
    else
      return k;
  }

  /// Puts elements origin .. origin + kChunk of every row, normalised, into shared memory; past the depth
  /// zeros.
  KILN_DEVICE void stage(int firstRow, int origin) {
    constexpr int kVec = Shape::kInputVec;
    for (int r = 0; r < kRows; ++r)
      for (int k = int(threadIndex()) * kVec; k < Shape::kChunk; k += Shape::kThreads * kVec) {
        Vec<float, kVec> x{};
        if (origin + k < Config::kDepth) {
          x = input.template load<kVec>(min(firstRow + r, rows - 1), origin + k);
          if constexpr (Input::kNormalizes)
            x = input.normalize(x, shared.statistics[r], input.template parameters<kVec>(origin + k));
        }
        storeShared(&shared.rows[r][staged(k)], x);
      }
  }

  /// sums += the rows' elements of a stage, which starts at `offset` of the chunk, times its weights.
  KILN_DEVICE void accumulate(const Weights &weights, int offset) {
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      Vec<float, V> w[kColsPerWarp];
#pragma unroll
      for (int c = 0; c < kColsPerWarp; ++c)
        w[c] = weights[c][u].unpack();
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        const Vec<float, V> x = readStaged(r, offset + u * Shape::kStep);
#pragma unroll
        for (int c = 0; c < kColsPerWarp; ++c)
#pragma unroll
          for (int v = 0; v < V; ++v)
            sums[r][c] += w[c][v] * x[v];
      }
    }
  }

  /// The lane's V elements of the step that starts at `offset` of the chunk.
  KILN_DEVICE Vec<float, V> readStaged(int r, int offset) const {
    if constexpr (V == 8) {
      const float *first = &shared.rows[r][offset] + laneIndex() * 4;
      const auto low = load<4>(first), high = load<4>(first + Shape::kStep / 2);
      return {low[0], low[1], low[2], low[3], high[0], high[1], high[2], high[3]};
    } else {
      return load<V>(&shared.rows[r][offset] + laneIndex() * V);
    }
  }

  /// Adds up the lanes' sums. A lane that holds kHeld rows gives half of them to the lane kDistance away and
  /// takes that lane's sums of the other half; with one row left, groups of lanes add theirs. The result is
  /// sums[0] of row laneIndex() / (32 / kRows).
  template <int kHeld = kRows, int kDistance = 16> KILN_DEVICE void reduce() {
    if constexpr (kHeld > 1) {
      const bool isUpper = laneIndex() & kDistance;
#pragma unroll
      for (int r = 0; r < kHeld / 2; ++r)
#pragma unroll
        for (int c = 0; c < kColsPerWarp; ++c) {
          const float lower = sums[r][c], upper = sums[r + kHeld / 2][c];
          sums[r][c] = (isUpper ? upper : lower) + shuffleXor(isUpper ? lower : upper, kDistance);
        }
      reduce<kHeld / 2, kDistance / 2>();
    } else {
#pragma unroll
      for (int c = 0; c < kColsPerWarp; ++c)
        sums[0][c] = warpSum<2 * kDistance>(sums[0][c]);
    }
  }

  KILN_DEVICE void finish(int firstRow) const {
    constexpr int kOut = Shape::kOutputVec, kLanesPerRow = int(kWarpSize) / kRows;
    const int row = firstRow + int(laneIndex()) / kLanesPerRow;
    if (laneIndex() % kLanesPerRow != 0 || row >= rows)
      return;
#pragma unroll
    for (int c = 0; c < kColsPerWarp; c += kOut) {
      Vec<float, kOut> product;
#pragma unroll
      for (int v = 0; v < kOut; ++v)
        product[v] = sums[0][c + v];
      if (firstCol + c < Config::kCols)
        epilogue(product, row, firstCol + c);
    }
  }

  /// Rows firstRow .. firstRow + kRows.
  KILN_DEVICE void pass(int firstRow) {
    Weights weights, next;
    fetch(0, weights);
    waitForDependencies(); // the weights are on their way while the kernel that makes the rows still runs
    if constexpr (Input::kNormalizes)
      blockRowStatistics<Shape::kInputVec, 1, kRows, Config::kWarps>(input, firstRow, rows - 1, Config::kDepth,
                                                                     shared.statistics);
    for (auto &row : sums)
      for (float &sum : row)
        sum = 0;
    for (int chunk = 0; chunk < Shape::kStages; chunk += Shape::kStagesPerChunk) {
      syncThreads(); // the statistics are written, and no thread reads the previous chunk any more
      stage(firstRow, chunk * Shape::kStage);
      syncThreads();
      for (int s = chunk; s < min(chunk + Shape::kStagesPerChunk, Shape::kStages); ++s) {
        const bool isLast = s + 1 == Shape::kStages;
        if (!isLast)
          fetch(s + 1, next);
        accumulate(weights, (s - chunk) * Shape::kStage);
        if (!isLast)
          copy(next, weights);
      }
    }
    reduce();
    finish(firstRow);
  }

  KILN_DEVICE static void copy(const Weights &from, Weights &to) {
#pragma unroll
    for (int c = 0; c < kColsPerWarp; ++c)
#pragma unroll
      for (int u = 0; u < kUnroll; ++u)
        to[c][u] = from[c][u];
  }
};

template <class Config, class Input, class W>
constexpr SharedBytes kSimtRowsShared = {sizeof(SimtRowsStorage<Config, W>), 0};

/// The kernel's body.
template <class Config, class Input, class W, class Epilogue>
KILN_DEVICE void simtRows(int rows, const Input &input, const W *weight, const Epilogue &epilogue) {
  allowDependents();
  SimtRows<Config, Input, W, Epilogue> warp{input, weight, epilogue, rows, sharedStorage<SimtRowsStorage<Config, W>>()};
  for (int firstRow = 0; firstRow < rows; firstRow += Config::kRows)
    warp.pass(firstRow);
}

} // namespace kiln
