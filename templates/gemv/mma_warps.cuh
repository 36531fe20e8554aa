//===- mma_warps.cuh - matrix product of few rows, each warp with operands of its own ------===//
//
// out[rows, cols] = A[rows, depth] · weight[cols, depth]^T for the 1 to 16 rows of decode, elements of bf16 or f16,
// sums in float; sm_80 and up. Bound by latency and by reading the weight once: each warp copies what it multiplies,
// whole lines of 128 bytes (cp.async), and waits for no other warp until the sums are there. The first weights are on
// their way before the kernel waits for those before it.
//
// Method: 8 or 16 rows of A are the rows of an instruction, 8 columns of weight its columns. The depth is cut into
// kRanges ranges, each of them into kChains chains, at steps of 128 bytes (gemv/depth_cut.cuh); kDepthWarps warps share
// the chains of their columns. So a row's bits depend on the cut only, and are those of gemv/wgmma_rows.cuh with the
// same one, because the tensor cores of Hopper round the sums of 16 products in one way, whichever instruction asks for
// them.
//
// A stage is kUnroll steps of each of a warp's chains. A warp has kBuffers of them in shared memory, in rows of 128
// bytes whose chunks are permuted (swizzledOffset), from where it gets fragments by ldmatrix. If warps share the depth,
// the rows of A come with each stage; otherwise all warps of the block need all of them, and copy them once.
//
// Several GPUs, the ranks, may each have a part of the product, as in gemv/wgmma_rows.cuh.
//
// Beside the warps that multiply, others load what the epilogue reads by rows, statistics of rows for example.
//
// Launch: grid (ceildiv(cols, kTileN · kTurns), ceildiv(rows, kRows)), where kTileN = 8 · kTilesN · kWarpsN; block
// 32 · (kWarpsN · kDepthWarps + kRows / 4).
//
// Shared memory, all dynamic: sizeof(MmaWarpsStorage). Stages of kUnroll · chains of a warp · (8 · kTilesN + kRows) ·
// 128 bytes; sums of the warps that share columns, as many as ranges if each warp has whole ones, else as chains, per
// row kTileN · 4 bytes, and 32 more where rows would share banks; 16 bytes for each row.
//
// The weight is read before waitForDependencies(): another kernel must not write it.
//
// Config (all constants):
//   kCols, kDepth         extents; kDepth a multiple of 8
//   kRows                 the most rows of a block: 8 or 16
//   kTilesN               groups of 8 columns of a warp
//   kWarpsN, kDepthWarps  warps along columns, and warps that share the depth, which divide the chains evenly
//   kRanges, kChains      the cut of the depth
//   kUnroll               steps of a stage, up to the steps of a chain
//   kBuffers              stages that a warp has in shared memory
//   kTurns                tiles that a block has one after the other; 1 if warps share the depth
//
// Epilogue: as in gemv/simt_row.cuh, also with what epilogue.cuh says of rows and groups. Its V is 2, or 1 if cols is
// odd.
//
// Ranks: OneRank, or an Exchange (exchange/thread_exchange.cuh), for which warps share the depth, the first
// kInboxThreads threads have all outputs, each at most one, and a grid has one block in y.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "device/async_copy.cuh"
#include "device/base.cuh"
#include "device/block.cuh"
#include "device/computed_here.cuh"
#include "device/grid.cuh"
#include "device/index.cuh"
#include "device/shared.cuh"
#include "device/tensor_core.cuh"
#include "device/vec.cuh"
#include "device/warp.cuh"
#include "epilogue.cuh"
#include "exchange/thread_exchange.cuh"
#include "gemv/mma_warps_copies.cuh"
#include "gemv/mma_warps_shape.cuh"

namespace kiln {

/// The work of one thread.
template <class Config, class T, class Epilogue, class Ranks> struct MmaWarps {
  using Shape = MmaWarpsShape<Config, T>;
  using OfRow = RowOperandsOf<Epilogue>;
  static constexpr int kTilesN = Shape::kTilesN, kUnroll = Shape::kUnroll, V = Shape::V;
  static constexpr int kChains = Shape::kOwnChains, kHalves = Shape::kRows / 8;

  const Epilogue &epilogue;
  const Ranks &ranks;
  const int allRows;
  MmaWarpsStorage<Config, T> &shared;
  const int firstRow = int(blockIndexY()) * Shape::kRows;
  const MmaWarpsCopies<Config, T> copies;
  MmaSums sums[kChains][kTilesN];

  KILN_DEVICE MmaWarps(const T *a, const T *weight, const Epilogue &epilogue, const Ranks &ranks, int allRows,
                       MmaWarpsStorage<Config, T> &shared)
      : epilogue(epilogue), ranks(ranks), allRows(allRows), shared(shared),
        copies(a, weight, firstRow, allRows, shared) {}

  KILN_DEVICE static int group() { return int(laneIndex()) / 4; }
  KILN_DEVICE static int place() { return int(laneIndex()) % 4; }
  KILN_DEVICE static bool isMultiplier() { return int(warpIndex()) < Shape::kMultipliers; }

  //===--- products

  /// sums += rows · weights of a stage, the chains in turn, so that none waits for its own last product.
  KILN_DEVICE void accumulate(int stage) {
#pragma unroll
    for (int u = 0; u < kUnroll; ++u)
#pragma unroll
      for (int pair = 0; pair < Shape::kParts / 2; ++pair)
#pragma unroll
        for (int chain = 0; chain < kChains; ++chain) {
          u32 left[kHalves][4];
#pragma unroll
          for (int half = 0; half < kHalves; ++half)
            copies.loadRows(left[half], half, stage, chain, u, pair);
#pragma unroll
          for (int n = 0; n < kTilesN; ++n) {
            u32 right[4];
            copies.loadWeight(right, n, stage, chain, u, pair);
#pragma unroll
            for (int i = 0; i < 2; ++i) {
              const u32 *low = left[0] + 2 * i, *high = left[kHalves - 1] + 2 * i;
              multiplyAdd<T>(sums[chain][n], {{low[0], kHalves > 1 ? high[0] : 0, low[1], kHalves > 1 ? high[1] : 0}},
                             {{right[2 * i], right[2 * i + 1]}});
            }
          }
        }
  }

  /// The products of a stage, counted over all turns, in whose place the copies of a later one start.
  KILN_DEVICE void multiply(int stage) {
    if (stage % Shape::kStages == 0)
#pragma unroll
      for (int chain = 0; chain < kChains; ++chain)
#pragma unroll
        for (MmaSums &sum : sums[chain])
          sum = {};
    waitAsyncCopies<Shape::kBuffers - 1>();
    syncWarp();
    accumulate(stage);
    if constexpr (Shape::kBuffers < Shape::kSequence) {
      syncWarp(); // all lanes have read the stage
      const int next = stage + Shape::kBuffers;
      if (next < Shape::kSequence && Shape::firstCol(next / Shape::kStages) < Config::kCols) {
        copies.copyWeights(next);
        if constexpr (!Shape::kSharesRows)
          copies.copyRows(next);
      }
    }
    commitAsyncCopies();
  }

  /// Element i of a tile's sums: those of a range's chains in order, or of one chain.
  KILN_DEVICE float ownSum(int sum, int n, int i) const {
    if constexpr (!Shape::kHasRanges)
      return sums[sum][n].values[i];
    float total = sums[sum * Config::kChains][n].values[i];
#pragma unroll
    for (int chain = 1; chain < Config::kChains; ++chain)
      total += sums[sum * Config::kChains + chain][n].values[i];
    return total;
  }

  //===--- the epilogue of warps that share the depth

  /// Stores the warp's sums in shared memory: of rows g and g + 8, columns 2 p and 2 p + 1 of each 8.
  KILN_DEVICE void share() const {
#pragma unroll
    for (int sum = 0; sum < Shape::kOwnSums; ++sum)
#pragma unroll
      for (int n = 0; n < kTilesN; ++n)
#pragma unroll
        for (int half = 0; half < Shape::kRows / 8; ++half)
          storeShared(&shared.sums[Shape::depthWarp() * Shape::kOwnSums + sum][half * 8 + group()]
                                  [Shape::warpN() * Shape::kWarpCols + n * 8 + place() * 2],
                      Vec<float, 2>{ownSum(sum, n, half * 2), ownSum(sum, n, half * 2 + 1)});
  }

  /// The place of a thread's i-th call of the epilogue, counted from the block's first row and column.
  struct Output {
    int row, col;
  };
  KILN_DEVICE static Output output(int i) {
    const int at = i * Shape::kThreads + int(threadIndex());
    return {computedHere(at / Shape::kRowOutputs), computedHere(at % Shape::kRowOutputs * V)};
  }
  /// The same for a whole warp.
  KILN_DEVICE static bool hasOutput(int i) { return i * Shape::kThreads + int(threadIndex()) < Shape::kOutputs; }
  using Operands = typename Epilogue::template Operands<V>;

  KILN_DEVICE Operands operands(int row, int col) const {
    return epilogue.template operands<V>(min(firstRow + row, allRows - 1), min(col, Config::kCols - V));
  }

  /// The product of a place: the sums of all ranges in order.
  KILN_DEVICE Vec<float, V> product(Output at) const {
    Vec<float, V> total{};
#pragma unroll
    for (int first = 0; first < Shape::kSums; first += Shape::kSumsOfRange) {
      auto range = load<V>(&shared.sums[first][at.row][at.col]);
#pragma unroll
      for (int chain = 1; chain < Shape::kSumsOfRange; ++chain)
        range += load<V>(&shared.sums[first + chain][at.row][at.col]);
      total = first == 0 ? range : total + range;
    }
    return total;
  }

  KILN_DEVICE void finishTogether(const Output (&outputs)[Shape::kOwnOutputs],
                                  const Operands (&ahead)[Shape::kOwnOutputs], SumOfParts<Ranks> &sumOfParts) const {
#pragma unroll
    for (int i = 0; i < Shape::kOwnOutputs; ++i) {
      if (!hasOutput(i))
        break;
      const Output at = outputs[i];
      const int col = Shape::firstCol(0) + at.col;
      const bool exists = firstRow + at.row < allRows && col < Config::kCols;
      passProduct(epilogue, sumOfParts(product(at), exists), ahead[i], ofRow(at.row), firstRow + at.row, col, exists);
    }
  }

  //===--- the epilogue of warps that have all of the depth

  KILN_DEVICE void finishAlone(int turn) const {
#pragma unroll
    for (int n = 0; n < kTilesN; ++n)
#pragma unroll
      for (int half = 0; half < Shape::kRows / 8; ++half) {
        // Such a warp has whole ranges.
        Vec<float, 2> total{ownSum(0, n, half * 2), ownSum(0, n, half * 2 + 1)};
#pragma unroll
        for (int sum = 1; sum < Shape::kOwnSums; ++sum)
          total += Vec<float, 2>{ownSum(sum, n, half * 2), ownSum(sum, n, half * 2 + 1)};
        const int row = half * 8 + group(), col = Shape::warpCol(turn) + n * 8 + place() * 2;
#pragma unroll
        for (int i = 0; i < 2; i += V) {
          Vec<float, V> values;
#pragma unroll
          for (int v = 0; v < V; ++v)
            values[v] = total[i + v];
          passProduct(epilogue, values, operands(row, col + i), ofRow(row), firstRow + row, col + i,
                      firstRow + row < allRows && col + i < Config::kCols);
        }
      }
  }

  //===--- what the epilogue reads by rows

  KILN_DEVICE typename OfRow::Type &ofRow(int row) const {
    using Type = typename OfRow::Type;
    static_assert(sizeof(Type) <= sizeof(shared.ofRows[0]) && alignof(Type) <= 16, "there is room for it");
    return *reinterpret_cast<Type *>(shared.ofRows[row]);
  }

  /// 8 lanes have a row, and load parts of it; a warp has 4.
  KILN_DEVICE void loadOfRows() const {
    constexpr int kLanes = 8, kRowsOfWarp = int(kWarpSize) / kLanes;
    const int row = (int(warpIndex()) - Shape::kMultipliers) * kRowsOfWarp + int(laneIndex()) / kLanes;
    const auto value = OfRow::template load<kLanes>(epilogue, min(firstRow + row, allRows - 1));
    if (laneIndex() % kLanes == 0)
      ofRow(row) = value;
  }

  KILN_DEVICE void run() {
    if (isMultiplier())
      copies.begin();
    if constexpr (Shape::kSharesRows)
      runAlone();
    else
      runTogether();
  }
  /// The weights are on their way while the kernel that makes the rows still runs.
  KILN_DEVICE void awaitRows() const {
    waitForDependencies();
    if (isMultiplier())
      copies.beginRows();
  }

  /// Warps that share the depth meet when they have their sums.
  KILN_DEVICE void runTogether() {
    Output outputs[Shape::kOwnOutputs];
#pragma unroll
    for (int i = 0; i < Shape::kOwnOutputs; ++i)
      outputs[i] = output(i);
    awaitRows();
    static_assert(!SumOfParts<Ranks>::kExchanges || Shape::kOutputs <= min(Shape::kThreads, kInboxThreads));
    SumOfParts<Ranks> sumOfParts(ranks);
    Operands ahead[Shape::kOwnOutputs];
#pragma unroll
    for (int i = 0; i < Shape::kOwnOutputs; ++i)
      if (hasOutput(i))
        ahead[i] = operands(outputs[i].row, Shape::firstCol(0) + outputs[i].col);
    if (isMultiplier()) {
#pragma unroll
      for (int stage = 0; stage < Shape::kSequence; ++stage)
        multiply(stage);
      share();
    } else if constexpr (OfRow::kExists) {
      loadOfRows();
    }
    syncThreads();
    finishTogether(outputs, ahead, sumOfParts);
  }

  /// Warps that have all of the depth meet when the rows are there.
  KILN_DEVICE void runAlone() {
    static_assert(!SumOfParts<Ranks>::kExchanges, "threads would exchange more than one vector");
    awaitRows();
    if (isMultiplier())
      waitAsyncCopies<0>();
    else if constexpr (OfRow::kExists)
      loadOfRows();
    syncThreads();
    if (!isMultiplier())
      return;
#pragma unroll 1
    for (int turn = 0; turn < Shape::kTurns && Shape::firstCol(turn) < Config::kCols; ++turn) {
#pragma unroll
      for (int stage = 0; stage < Shape::kStages; ++stage)
        multiply(turn * Shape::kStages + stage);
      finishAlone(turn);
    }
  }
};

/// The kernel's body.
template <class Config, class T, class Epilogue, class Ranks = OneRank>
KILN_DEVICE void mmaWarps(int rows, const T *a, const T *weight, const Epilogue &epilogue, const Ranks &ranks = {}) {
  allowDependents();
  MmaWarps<Config, T, Epilogue, Ranks> thread(a, weight, epilogue, ranks, rows,
                                              dynamicShared<MmaWarpsStorage<Config, T>>());
  thread.run();
}

} // namespace kiln
