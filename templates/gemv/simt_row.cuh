//===- simt_row.cuh - matrix product of one row, for the least latency --------===//
//
// out[row, cols] = A[row, depth] · weight[cols, depth]^T for decode at batch 1, fp32 arithmetic on any GPU; each
// further row takes further blocks. A is read through Input, optionally layer normalised; Epilogue stores the product.
//
// Method: at batch 1 latency matters as much as the product itself, so it is kept short. The first stage of weights is
// issued before the wait for the previous kernel, and so are the loads of layernorm's parameters. A row that is not
// normalised is read straight into registers, with no barrier at all. A row that is normalised is read once by the
// block, each thread reading its elements; the sums are exchanged through shared memory, and the normalised row is left
// there in fp32: two barriers. Blocks are small and use few registers, so that those of the next kernel can start
// beside them. With few columns and a long row the warps of a block share columns: kDepthWarps of them take every
// kDepthWarps-th step of the depth and meet once, in shared memory.
//
// Launch: grid (ceildiv(cols, kColsPerBlock), rows), block 32 · kWarps.
//
// Which thread holds what: of each of its warp's kColsPerWarp columns lane l has the elements
// (step · 32 + l) · V .. + V, V = 16 bytes of weight (less if depth is not a multiple of that), and one sum. The
// warps take kColsPerWarp columns each, then the block's next columns, the weights of the next stage being loaded
// while this one is multiplied. Lane 0 calls the epilogue.
//
// Shared memory: a normalised row (depth · 4 bytes, rounded up to whole steps) and kWarps · 8 bytes; for warps that
// share columns kWarps · kColsPerWarp · 4 bytes; else none.
//
// Registers: 2 · kColsPerWarp · kUnroll · 4 for the weights of this stage and the next (half of it where one stage is
// all), V · (kColsPerWarp + 1) operands, kColsPerWarp sums.
//
// Config:
//   kCols, kDepth      extents, constant
//   kColsPerBlock      columns of a block: any number, so that the blocks fill the GPU evenly
//   kColsPerWarp       1, 2 or 4: columns that share a read of the row
//   kDepthWarps        warps that share a column; 1 if Input normalises
//   kUnroll            steps of 32 · V elements whose weights are in flight together
//   kWarps             warps of a block, a multiple of kDepthWarps up to 32
// Input: as for gemm/simt_tiled.cuh.
//
// Epilogue: its operands are loaded before the products are computed.
//   template <int V> struct Operands;
//   template <int V> Operands<V> operands(int row, int col) const;
//   template <int V> void operator()(Vec<float, V> product, const Operands<V> &with, int row, int col) const;
//     Columns col .. col + V of a row, each output once; V is the widest power of two that divides kColsPerWarp,
//     kColsPerBlock and cols.
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
#include "epilogue.cuh"
#include "norm/row_statistics.cuh"
#include "shape.cuh"

namespace kiln {

/// Constants that follow from a Config, the weight's element type and the input.
template <class Config, class Input, class W> struct SimtRowShape {
  static constexpr int kColsPerWarp = Config::kColsPerWarp, kUnroll = Config::kUnroll;
  static constexpr int kDepthWarps = Config::kDepthWarps, kColumnWarps = Config::kWarps / kDepthWarps;
  static constexpr int kVec = widestVector(Config::kDepth, 16 / int(sizeof(W)));
  static constexpr int kOutputVec = kDepthWarps > 1 ? 1
                                                    : widestVector(Config::kCols,
                                                                   widestVector(Config::kColsPerBlock, kColsPerWarp));

  static constexpr int kOutputs = kDepthWarps > 1 ? 1 : kColsPerWarp / kOutputVec;

  // A step is one vector a lane of all warps that share a column, a stage kUnroll steps.
  static constexpr int kStep = int(kWarpSize) * kVec * kDepthWarps;
  static constexpr int kSteps = ceilDiv(Config::kDepth, kStep);
  static constexpr int kStages = ceilDiv(kSteps, kUnroll);
  static constexpr bool kDepthIsExact = Config::kDepth % (kStep * kUnroll) == 0;
  static constexpr int kColsAtOnce = kColumnWarps * kColsPerWarp;
  static constexpr int kTiles = ceilDiv(Config::kColsPerBlock, kColsAtOnce);
  static constexpr int kThreads = Config::kWarps * int(kWarpSize);
  // A row that is normalised: each thread's part, and the whole of it, in shared memory.
  static constexpr int kInputVec = widestVector(Config::kDepth, 4);
  static constexpr int kOwn = ceilDiv(Config::kDepth, kInputVec *kThreads);
  static constexpr int kStaged = kSteps * kStep;

  static_assert(Config::kWarps % kDepthWarps == 0 && Config::kWarps <= 32, "a legal block");
  static_assert(isPowerOfTwo(kColsPerWarp) && kColsPerWarp <= 4, "kColsPerWarp is 1, 2 or 4");
  static_assert(kDepthWarps == 1 || (kTiles == 1 && !Input::kNormalizes),
                "warps that share columns meet once, and do not normalise");
  static_assert(!Input::kNormalizes || kStaged * 4 + Config::kWarps * 8 <= kStaticSharedBytes,
                "the row fits in shared memory");
};

/// The shared memory in which warps that share columns exchange sums.
template <class Config> struct SimtRowSums {
  float sums[Config::kDepthWarps][Config::kWarps / Config::kDepthWarps * Config::kColsPerWarp];
};

/// A normalised row, and the mean and squared deviation of each warp's part of it.
template <class Config, int kStaged> struct SimtRowStorage {
  alignas(16) float row[kStaged];
  float means[Config::kWarps], squares[Config::kWarps];
};

/// The work of one warp.
template <class Config, class Input, class W, class Epilogue> struct SimtRow {
  using Shape = SimtRowShape<Config, Input, W>;
  static constexpr int kColsPerWarp = Shape::kColsPerWarp, kUnroll = Shape::kUnroll, kStages = Shape::kStages;
  static constexpr int V = Shape::kVec;
  using Weights = Packed<W, V>[kColsPerWarp][kUnroll];
  using Operands = typename Epilogue::template Operands<Shape::kOutputVec>;
  using OfRow = RowOperandsOf<Epilogue>;

  const Input &input;
  const W *weight;
  const Epilogue &epilogue;
  const int row = int(blockIndexY());
  const int depthWarp = int(warpIndex()) % Config::kDepthWarps;
  const int blockEnd = min((int(blockIndexX()) + 1) * Config::kColsPerBlock, Config::kCols);
  /// First column of the warp's tile.
  int firstCol = int(blockIndexX()) * Config::kColsPerBlock + int(warpIndex()) / Config::kDepthWarps * kColsPerWarp;
  float sums[kColsPerWarp] = {};

  /// The lane's first element of a step, counted from the start of the row.
  KILN_DEVICE int depthOf(int step) const {
    return step * Shape::kStep + (depthWarp * int(kWarpSize) + int(laneIndex())) * V;
  }
  KILN_DEVICE static bool isInside(int k) { return Shape::kDepthIsExact || k < Config::kDepth; }

  /// Starts the loads of a stage; elements past the depth are zero.
  KILN_DEVICE void fetch(int col, int stage, Weights &weights) const {
#pragma unroll
    for (int c = 0; c < kColsPerWarp; ++c) {
      const W *column = weight + i64(min(col + c, blockEnd - 1)) * Config::kDepth;
#pragma unroll
      for (int u = 0; u < kUnroll; ++u) {
        const int k = depthOf(stage * kUnroll + u);
        weights[c][u] = loadPackedStreamingIf<V>(isInside(k), column + k);
      }
    }
  }

  KILN_DEVICE auto &storage() const { return sharedStorage<SimtRowStorage<Config, Shape::kStaged>>(); }

  /// The position of element k in the shared row: with V = 8 a lane reads its elements in two halves, and all lanes'
  /// first halves are stored before all lanes' second ones, so that neighbouring lanes read neighbouring 16 bytes,
  /// without bank conflicts.
  KILN_DEVICE static int staged(int k) {
    constexpr int kStep = int(kWarpSize) * V;
    if constexpr (V == 8)
      return k / kStep * kStep + k % 8 / 4 * (kStep / 2) + k % kStep / 8 * 4 + k % 4;
    else
      return k;
  }

  /// The row's elements that go with the lane's weights of a step.
  KILN_DEVICE Vec<float, V> readRow(int step) const {
    const int k = depthOf(step);
    if constexpr (!Input::kNormalizes) {
      return isInside(k) ? input.template load<V>(row, k) : Vec<float, V>{};
    } else if constexpr (V == 8) {
      const float *first = storage().row + staged(k);
      const auto low = load<4>(first), high = load<4>(first + int(kWarpSize) * V / 2);
      return {low[0], low[1], low[2], low[3], high[0], high[1], high[2], high[3]};
    } else {
      return load<V>(storage().row + k);
    }
  }

  /// The first of the thread's elements of the row, and whether the thread has any.
  KILN_DEVICE static int ownElement(int i) { return (i * Shape::kThreads + int(threadIndex())) * Shape::kInputVec; }
  KILN_DEVICE static bool isOwn(int k) {
    return Config::kDepth % (Shape::kThreads * Shape::kInputVec) == 0 || k < Config::kDepth;
  }

  /// How many of the row's elements a warp's threads own.
  KILN_DEVICE static int ownCount(int warp) {
    int count = 0;
#pragma unroll
    for (int i = 0; i < Shape::kOwn; ++i) {
      const int first = (i * Config::kWarps + warp) * int(kWarpSize) * Shape::kInputVec;
      count += max(0, min(int(kWarpSize) * Shape::kInputVec, Config::kDepth - first));
    }
    return count;
  }

  /// The row's statistics from each warp's own: the squared deviations of a set are those of its parts around their
  /// means, and those of the means (Chan, Golub, LeVeque: Updating formulae and a pairwise algorithm for computing
  /// sample variances, 1979). As exact as two passes over the row, with one barrier between the warps.
  KILN_DEVICE RowStatistics exchange(float mean, float squares) const {
    auto &shared = storage();
    if (laneIndex() == 0) {
      shared.means[warpIndex()] = mean;
      shared.squares[warpIndex()] = squares;
    }
    syncThreads();
    float sum = 0, deviation = 0;
#pragma unroll
    for (int warp = 0; warp < Config::kWarps; ++warp)
      sum += float(ownCount(warp)) * shared.means[warp];
    const float rowMean = sum / float(Config::kDepth);
#pragma unroll
    for (int warp = 0; warp < Config::kWarps; ++warp) {
      const float off = shared.means[warp] - rowMean;
      deviation += shared.squares[warp] + float(ownCount(warp)) * off * off;
    }
    return rowStatistics(rowMean, deviation, Config::kDepth, Input::kEps);
  }

  /// Leaves the normalised row in shared memory, past the depth zeros; `parameters` are those of the thread's elements.
  template <class Parameters> KILN_DEVICE void normalizeRow(const Parameters (&parameters)[Shape::kOwn]) const {
    constexpr int kVec = Shape::kInputVec;
    auto &shared = storage();
    Vec<float, kVec> own[Shape::kOwn];
    float sum = 0, squares = 0;
#pragma unroll
    for (int i = 0; i < Shape::kOwn; ++i) {
      own[i] = isOwn(ownElement(i)) ? input.template load<kVec>(row, ownElement(i)) : Vec<float, kVec>{};
      sum += own[i].sum();
    }
    const float mean = warpSum(sum) / float(max(1, ownCount(int(warpIndex()))));
#pragma unroll
    for (int i = 0; i < Shape::kOwn; ++i)
      if (isOwn(ownElement(i)))
        squares += squaredDeviation(own[i], mean);
    const RowStatistics statistics = exchange(mean, warpSum(squares));
#pragma unroll
    for (int i = 0; i < Shape::kOwn; ++i)
      if (isOwn(ownElement(i)))
        storeShared(&shared.row[staged(ownElement(i))], input.normalize(own[i], statistics, parameters[i]));
    if constexpr (Config::kDepth < Shape::kStaged)
      for (int k = Config::kDepth + int(threadIndex()); k < Shape::kStaged; k += Shape::kThreads)
        shared.row[staged(k)] = 0;
    syncThreads();
  }

  /// sums += the row's elements of a stage times its weights.
  KILN_DEVICE void accumulate(const Weights &weights, int stage) {
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      const int step = stage * kUnroll + u;
      if (step >= Shape::kSteps)
        break;
      const Vec<float, V> x = readRow(step);
#pragma unroll
      for (int c = 0; c < kColsPerWarp; ++c) {
        const Vec<float, V> w = weights[c][u].unpack();
#pragma unroll
        for (int v = 0; v < V; ++v)
          sums[c] += w[v] * x[v];
      }
    }
  }

  /// The products of the columns at firstCol, whose first stage `weights` holds; leaves there the first stage of the
  /// columns at nextCol, if they are the block's.
  KILN_DEVICE void multiply(Weights &weights, int nextCol) {
    for (float &sum : sums)
      sum = 0;
    Weights next;
    for (int stage = 0; stage < kStages; ++stage) {
      const bool isLast = stage + 1 == kStages;
      if (!isLast)
        fetch(firstCol, stage + 1, next);
      else if (nextCol < blockEnd)
        fetch(nextCol, 0, next);
      accumulate(weights, stage);
      if (!isLast || nextCol < blockEnd)
        copy(next, weights);
    }
  }

  KILN_DEVICE static void copy(const Weights &from, Weights &to) {
#pragma unroll
    for (int c = 0; c < kColsPerWarp; ++c)
#pragma unroll
      for (int u = 0; u < kUnroll; ++u)
        to[c][u] = from[c][u];
  }

  /// The column of the thread's i-th call of the epilogue, which may be past the block's. Lane 0 calls it for its
  /// warp's columns; where warps share columns, one thread a column does.
  KILN_DEVICE int outputCol(int i) const {
    if constexpr (Shape::kDepthWarps > 1)
      return int(blockIndexX()) * Config::kColsPerBlock + int(threadIndex());
    else
      return firstCol + i * Shape::kOutputVec;
  }

  /// Starts the loads of the epilogue's operands.
  KILN_DEVICE void fetchOperands(Operands (&operands)[Shape::kOutputs]) const {
#pragma unroll
    for (int i = 0; i < Shape::kOutputs; ++i)
      operands[i] = epilogue.template operands<Shape::kOutputVec>(row, min(outputCol(i), blockEnd - Shape::kOutputVec));
  }

  /// Adds up the lanes' sums and passes them to the epilogue.
  KILN_DEVICE void finish(const Operands (&operands)[Shape::kOutputs]) {
#pragma unroll
    for (int c = 0; c < kColsPerWarp; ++c)
      sums[c] = warpSum(sums[c]);
    if constexpr (Shape::kDepthWarps > 1)
      return finishTogether(operands[0]);
    constexpr int kOut = Shape::kOutputVec;
    if (laneIndex() != 0)
      return;
#pragma unroll
    for (int i = 0; i < Shape::kOutputs; ++i) {
      Vec<float, kOut> product;
#pragma unroll
      for (int v = 0; v < kOut; ++v)
        product[v] = sums[i * kOut + v];
      if (outputCol(i) < blockEnd)
        OfRow::apply(epilogue, product, operands[i], OfRow::load(epilogue, row), row, outputCol(i));
    }
  }

  /// Finishes the columns that warps share: one thread per column adds up the warps' sums.
  KILN_DEVICE void finishTogether(const Operands &operands) {
    auto &shared = sharedStorage<SimtRowSums<Config>>();
    const int own = int(warpIndex()) / Shape::kDepthWarps * kColsPerWarp;
    if (laneIndex() == 0)
#pragma unroll
      for (int c = 0; c < kColsPerWarp; ++c)
        shared.sums[depthWarp][own + c] = sums[c];
    syncThreads();
    if (int(threadIndex()) >= Shape::kColsAtOnce || outputCol(0) >= blockEnd)
      return;
    Vec<float, Shape::kOutputVec> product{};
#pragma unroll
    for (int warp = 0; warp < Shape::kDepthWarps; ++warp)
      product[0] += shared.sums[warp][threadIndex()];
    OfRow::apply(epilogue, product, operands, OfRow::load(epilogue, row), row, outputCol(0));
  }

  KILN_DEVICE void run() {
    Weights weights;
    if (firstCol < blockEnd)
      fetch(firstCol, 0, weights);
    // Weights and constants are being loaded while the kernel that computes the row still runs.
    if constexpr (Input::kNormalizes) {
      typename Input::template Parameters<Shape::kInputVec> parameters[Shape::kOwn];
#pragma unroll
      for (int i = 0; i < Shape::kOwn; ++i)
        parameters[i] = input.template parameters<Shape::kInputVec>(isOwn(ownElement(i)) ? ownElement(i) : 0);
      waitForDependencies();
      normalizeRow(parameters);
    } else {
      waitForDependencies();
    }
    for (int tile = 0; tile < Shape::kTiles && (Shape::kDepthWarps > 1 || firstCol < blockEnd); ++tile) {
      const int nextCol = tile + 1 < Shape::kTiles ? firstCol + Shape::kColsAtOnce : blockEnd;
      Operands operands[Shape::kOutputs];
      fetchOperands(operands);
      multiply(weights, nextCol);
      finish(operands);
      firstCol = nextCol;
    }
  }
};

template <class Config, class Input, class W>
constexpr SharedBytes kSimtRowShared = {Input::kNormalizes
                                            ? sizeof(SimtRowStorage<Config, SimtRowShape<Config, Input, W>::kStaged>)
                                        : Config::kDepthWarps > 1 ? sizeof(SimtRowSums<Config>)
                                                                  : 0,
                                        0};

/// The kernel's body.
template <class Config, class Input, class W, class Epilogue>
KILN_DEVICE void simtRow(int rows, const Input &input, const W *weight, const Epilogue &epilogue) {
  allowDependents();
  if (int(blockIndexY()) < rows)
    SimtRow<Config, Input, W, Epilogue>{input, weight, epilogue}.run();
}

} // namespace kiln
