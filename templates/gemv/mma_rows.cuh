//===- mma_rows.cuh - matrix product of few rows in tensor cores ----------------===//
//
// out[rows, cols] = input[rows, depth] · weight[cols, depth]^T for the 2 to 64 rows of decode with a batch, weights of
// bf16 or f16, sums in float; sm_80 and up. Like gemv/simt_rows.cuh it is bound by reading the weight once; the tensor
// cores keep the arithmetic, which grows with the rows, from becoming the bottleneck.
//
// Method: the transposed product, weight · input^T: 16 columns of weight are the 16 rows of an instruction's left
// operand, and 8 rows of input the 8 columns of its right one, so that 8 rows waste nothing. Every weight is needed by
// one warp once and goes from memory to registers, kUnroll · 32 elements of 16 columns in flight while as many are
// multiplied; the first of them are issued before the block touches the input, as in simt_rows. The input lies in
// shared memory in the weight's type, normalised on the way there, kTileDepth of the depth at a time. A row that fits
// in a warp's registers is read once for its statistics and for that.
//
// Which lane holds what: the instruction wants words p and p + 4 of a row of 16 elements in lane 4 · g + p. The mapping
// of depth to word p is free if it is the same in both operands: lane p takes 8 neighbouring elements, 16 bytes by one
// access, and two instructions use up 32 elements.
//
// kWarpsN warps have 16 columns each; kWarpsK warps share the depth of a column, every kWarpsK-th kUnroll · 32
// elements. Their sums are added in the order of the warps, in shared memory, from where the epilogue gets vectors
// along a row.
//
// Launch: grid ceildiv(cols, 16 · kWarpsN), block 32 · kWarpsN · kWarpsK.
//
// Shared memory, all dynamic, in bytes (sizeof(MmaRowsStorage)): kRows · (2 · (kTileDepth + 32) + 4 · kWarpsK ·
// (16 · kWarpsN + 4) + 8). The 32 elements behind a row, and the 4 floats, keep neighbouring rows in other banks.
//
// Config:
//   kCols, kDepth      extents, constant; kDepth a multiple of 8
//   kRows              rows of a pass: 8, 16, 32 or 64
//   kWarpsN, kWarpsK   warps along columns and along the depth
//   kUnroll            2 or 4
//   kTileDepth         a multiple of 32 · kUnroll · kWarpsK
//
// Input: as for gemm/simt_tiled.cuh.
//
// Epilogue: its operands are loaded before the products are computed, as in gemv/simt_row.cuh. Its V is the widest
// power of two up to 8 that divides cols.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "device/base.cuh"
#include "device/block.cuh"
#include "device/grid.cuh"
#include "device/index.cuh"
#include "device/shared.cuh"
#include "device/tensor_core.cuh"
#include "device/vec.cuh"
#include "epilogue.cuh"
#include "norm/row_statistics.cuh"
#include "shape.cuh"

namespace kiln {

/// Constants that follow from a Config.
template <class Config> struct MmaRowsShape {
  static constexpr int kRows = Config::kRows, kTiles = kRows / 8, kUnroll = Config::kUnroll;
  static constexpr int kWarpsN = Config::kWarpsN, kWarpsK = Config::kWarpsK;
  static constexpr int kWarps = kWarpsN * kWarpsK, kThreads = kWarps * int(kWarpSize);
  static constexpr int kBlockCols = 16 * kWarpsN;
  static constexpr int kOutputVec = widestVector(Config::kCols, 8);

  // A step is 32 elements of the depth, a warp multiplies kUnroll of them in a round, the block kRound elements.
  static constexpr int kStep = 32, kWarpRound = kStep * kUnroll, kRound = kWarpRound * kWarpsK;
  static constexpr int kRounds = ceilDiv(Config::kDepth, kRound), kTileRounds = Config::kTileDepth / kRound;
  static constexpr bool kDepthIsExact = Config::kDepth % kRound == 0;
  // A row in a warp's registers, 8 elements a lane at a time.
  static constexpr int kOwn = ceilDiv(Config::kTileDepth, 8 * int(kWarpSize));
  static constexpr bool kHoldsRow = kTileRounds >= kRounds && kOwn <= 8;
  // The epilogue calls of a block. With one call per thread, its operands are loaded ahead, if the block's registers
  // suffice.
  static constexpr int kOutputVectors = kBlockCols / kOutputVec, kOutputs = kRows * kOutputVectors;
  static constexpr bool kReadsAhead = kOutputs <= kThreads && kThreads <= 512;
  static constexpr int kRowStride = Config::kTileDepth + 32, kSumStride = kBlockCols + 4; // elements

  static_assert(Config::kDepth % 8 == 0, "rows are whole accesses of 16 bytes");
  static_assert(isPowerOfTwo(kRows) && kRows >= 8 && kRows <= 64, "kRows is 8, 16, 32 or 64");
  static_assert(kUnroll % 2 == 0, "rows of the tile are 64 bytes more than whole rows of banks");
  static_assert(kTileRounds >= 1 && Config::kTileDepth % kRound == 0, "a tile is whole rounds");
};

template <class Config, class W> struct MmaRowsStorage {
  using Shape = MmaRowsShape<Config>;
  alignas(16) W rows[Shape::kRows][Shape::kRowStride];
  alignas(16) float sums[Shape::kWarpsK][Shape::kRows][Shape::kSumStride];
  RowStatistics statistics[Shape::kRows];
};

/// The work of one thread.
template <class Config, class Input, class W, class Epilogue> struct MmaRows {
  using Shape = MmaRowsShape<Config>;
  static constexpr int kTiles = Shape::kTiles, kUnroll = Shape::kUnroll;
  static constexpr int V = Shape::kOutputVec;
  using Weights = Packed<W, 8>[kUnroll][2]; // of columns g and g + 8
  using Operands = typename Epilogue::template Operands<V>;
  using OfRow = RowOperandsOf<Epilogue>;

  const Input &input;
  const W *weight;
  const Epilogue &epilogue;
  const int rows;
  MmaRowsStorage<Config, W> &shared;
  MmaSums sums[kTiles][2]; // of every other instruction, so that none waits for the one in front of it

  KILN_DEVICE static int warpN() { return int(warpIndex()) % Shape::kWarpsN; }
  KILN_DEVICE static int warpK() { return int(warpIndex()) / Shape::kWarpsN; }
  KILN_DEVICE static int group() { return int(laneIndex()) / 4; }
  KILN_DEVICE static int place() { return int(laneIndex()) % 4; }
  /// The first element of the depth that the lane takes of a round.
  KILN_DEVICE static int firstOfRound() { return warpK() * Shape::kWarpRound + place() * 8; }

  /// Starts the loads of a round; elements past the depth are zero, columns past the end repeat the last one.
  KILN_DEVICE void fetch(int round, Weights &weights) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int col = int(blockIndexX()) * Shape::kBlockCols + warpN() * 16 + half * 8 + group();
      const W *column = weight + i64(min(col, Config::kCols - 1)) * Config::kDepth;
#pragma unroll
      for (int u = 0; u < kUnroll; ++u) {
        const int k = round * Shape::kRound + firstOfRound() + u * Shape::kStep;
        weights[u][half] = loadPackedStreamingIf<8>(Shape::kDepthIsExact || k < Config::kDepth, column + k);
      }
    }
  }

  /// Puts elements origin .. origin + kTileDepth of every row, normalised, into shared memory; past the depth zeros.
  KILN_DEVICE void stage(int firstRow, int origin) {
    constexpr int kVectors = Config::kTileDepth / 8;
    for (int i = int(threadIndex()); i < Shape::kRows * kVectors; i += Shape::kThreads) {
      const int r = i / kVectors, k = i % kVectors * 8;
      Vec<float, 8> x{};
      if (origin + k < Config::kDepth) {
        x = input.template load<8>(min(firstRow + r, rows - 1), origin + k);
        if constexpr (Input::kNormalizes)
          x = input.normalize(x, shared.statistics[r], input.template parameters<8>(origin + k));
      }
      storeShared(&shared.rows[r][k], x);
    }
  }

  /// Stages rows like stage(), for a depth of one tile, and normalises them; each warp computes the statistics of its
  /// rows.
  KILN_DEVICE void stageNormalized(int firstRow) {
    for (int r = int(warpIndex()); r < Shape::kRows; r += Shape::kWarps) {
      Vec<float, 8> x[Shape::kOwn];
      float sum = 0, squares = 0;
      forEachOwn([&](int i, int k) {
        x[i] = input.template load<8>(min(firstRow + r, rows - 1), k);
        sum += x[i].sum();
      });
      const float mean = warpSum(sum) / float(Config::kDepth);
      forEachOwn([&](int i, int) { squares += squaredDeviation(x[i], mean); });
      const auto statistics = rowStatistics(mean, warpSum(squares), Config::kDepth, Input::kEps);
      forEachOwn([&](int i, int k) {
        storeShared(&shared.rows[r][k], input.normalize(x[i], statistics, input.template parameters<8>(k)));
      });
      for (int k = Config::kDepth + int(laneIndex()) * 8; k < Config::kTileDepth; k += int(kWarpSize) * 8)
        storeShared(&shared.rows[r][k], Vec<float, 8>{});
    }
  }

  /// body(i, k) for the lane's i-th 8 elements of a row, which begin with the k-th.
  template <class Body> KILN_DEVICE static void forEachOwn(Body body) {
#pragma unroll
    for (int i = 0; i < Shape::kOwn; ++i)
      if (const int k = (i * int(kWarpSize) + int(laneIndex())) * 8; k < Config::kDepth)
        body(i, k);
  }

  /// sums += weights · rows, of a round that starts at `offset` of the tile.
  KILN_DEVICE void accumulate(const Weights &weights, int offset) {
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      const u32(&upper)[4] = weights[u][0].packets[0].words, (&lower)[4] = weights[u][1].packets[0].words;
#pragma unroll
      for (int tile = 0; tile < kTiles; ++tile) {
        const auto x = loadPacked<8>(&shared.rows[tile * 8 + group()][offset + firstOfRound() + u * Shape::kStep]);
        const u32(&words)[4] = x.packets[0].words;
        multiplyAdd<W>(sums[tile][0], {{upper[0], lower[0], upper[1], lower[1]}}, {{words[0], words[1]}});
        multiplyAdd<W>(sums[tile][1], {{upper[2], lower[2], upper[3], lower[3]}}, {{words[2], words[3]}});
      }
    }
  }

  /// Stores the warp's sums in shared memory for the whole block: for columns g and g + 8, rows 2 p and 2 p + 1 of each
  /// 8.
  KILN_DEVICE void share() {
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile)
#pragma unroll
      for (int i = 0; i < 4; ++i)
        shared.sums[warpK()][tile * 8 + place() * 2 + i % 2][warpN() * 16 + i / 2 * 8 + group()] =
            sums[tile][0].values[i] + sums[tile][1].values[i];
  }

  /// body(row, column of the block) of a thread's i-th call of the epilogue, unless it lies past an end.
  template <class Body> KILN_DEVICE void output(int firstRow, int i, Body body) const {
    const int r = i / Shape::kOutputVectors, c = i % Shape::kOutputVectors * V;
    if (i < Shape::kOutputs && firstRow + r < rows && int(blockIndexX()) * Shape::kBlockCols + c < Config::kCols)
      body(r, c);
  }

  KILN_DEVICE Operands operands(int firstRow, int r, int c) const {
    return epilogue.template operands<V>(firstRow + r, int(blockIndexX()) * Shape::kBlockCols + c);
  }

  KILN_DEVICE void finish(int firstRow, const Operands &ahead) const {
    for (int i = int(threadIndex()); i < Shape::kOutputs; i += Shape::kThreads)
      output(firstRow, i, [&](int r, int c) {
        auto product = load<V>(&shared.sums[0][r][c]);
#pragma unroll
        for (int k = 1; k < Shape::kWarpsK; ++k)
          product += load<V>(&shared.sums[k][r][c]);
        OfRow::apply(epilogue, product, Shape::kReadsAhead ? ahead : operands(firstRow, r, c),
                     OfRow::load(epilogue, firstRow + r), firstRow + r, int(blockIndexX()) * Shape::kBlockCols + c);
      });
  }

  /// Rows firstRow .. firstRow + kRows.
  KILN_DEVICE void pass(int firstRow) {
    Weights weights, next;
    fetch(0, weights);
    waitForDependencies(); // the weights are on their way while the kernel that makes the rows still runs
    constexpr bool kStagesOnce = Input::kNormalizes && Shape::kHoldsRow;
    if constexpr (Input::kNormalizes && !kStagesOnce)
      blockRowStatistics<8, 1, Shape::kRows, Shape::kWarps>(input, firstRow, rows - 1, Config::kDepth,
                                                            shared.statistics);
    Operands ahead{};
    if constexpr (Shape::kReadsAhead)
      output(firstRow, int(threadIndex()), [&](int r, int c) { ahead = operands(firstRow, r, c); });
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile)
      sums[tile][0] = sums[tile][1] = {};
    for (int first = 0; first < Shape::kRounds; first += Shape::kTileRounds) {
      syncThreads(); // the statistics are written, and no thread reads the previous tile any more
      if constexpr (kStagesOnce)
        stageNormalized(firstRow);
      else
        stage(firstRow, first * Shape::kRound);
      syncThreads();
      for (int round = first; round < min(first + Shape::kTileRounds, Shape::kRounds); ++round) {
        const bool isLast = round + 1 == Shape::kRounds;
        if (!isLast)
          fetch(round + 1, next);
        accumulate(weights, (round - first) * Shape::kRound);
        if (!isLast)
          copy(next, weights);
      }
    }
    share();
    syncThreads();
    finish(firstRow, ahead);
  }

  KILN_DEVICE static void copy(const Weights &from, Weights &to) {
#pragma unroll
    for (int u = 0; u < kUnroll; ++u)
#pragma unroll
      for (int half = 0; half < 2; ++half)
        to[u][half] = from[u][half];
  }
};

template <class Config, class Input, class W>
constexpr SharedBytes kMmaRowsShared = {0, sizeof(MmaRowsStorage<Config, W>)};

/// The kernel's body.
template <class Config, class Input, class W, class Epilogue>
KILN_DEVICE void mmaRows(int rows, const Input &input, const W *weight, const Epilogue &epilogue) {
  allowDependents();
  MmaRows<Config, Input, W, Epilogue> thread{input, weight, epilogue, rows, dynamicShared<MmaRowsStorage<Config, W>>()};
  for (int firstRow = 0; firstRow < rows; firstRow += Config::kRows)
    thread.pass(firstRow);
}

} // namespace kiln
