//===- simt_tiled.cuh - matrix product, tiles in shared memory and registers -===//
//
// out[rows, cols] = A[rows, depth] · B, fp32 arithmetic on any GPU. B is weight[cols, depth] where
// Config::kWeightTransposed, else weight[depth, cols]; both contiguous. A is read through Input, optionally layer
// normalised on the way in; Epilogue receives the product, applies the ops that follow it, and stores the result.
//
// Method: two-level blocking as in Volkov and Demmel, "Benchmarking GPUs to Tune Dense Linear Algebra" (SC
// 2008): a block owns a kTileRows × kTileCols tile of the output and walks the depth in steps of kTileDepth.
// Operand tiles lie in shared memory as fp32, depth-major; a thread accumulates kThreadRows × kThreadCols
// products in registers as a sum of outer products. While a step is multiplied, the next step's tile is on
// its way from global memory into registers.
//
// Launch: grid (ceildiv(cols, kTileCols), ceildiv(rows, kTileRows), batch), block kThreads =
// (kTileRows / kThreadRows) · (kTileCols / kThreadCols). A batched kernel offsets its pointers by
// blockIndexZ().
//
// Which thread holds what: a warp covers (up to) 4 × 8 threads of the tile, so that one depth step costs it
// one shared-memory wavefront an operand. A thread owns groups of 4 consecutive rows and of 4 consecutive
// columns, the groups kThreadsY · 4 rows and kThreadsX · 4 columns apart: every fragment is read with 16-byte
// loads, and a warp's stores of one row are contiguous.
//
// Shared memory: kBuffers · kTileDepth · (kTileRows + kTileCols) · 4 bytes, plus 8 · kTileRows for the row
// statistics. There are two buffers, and one barrier a step, where both fit in 48 KB; else one buffer and two
// barriers. An operand that is contiguous along the depth is transposed on the way in; its rows are
// XOR-swizzled in units of 4 by depth, which keeps these scattered stores and the 16-byte reads free of bank
// conflicts without padding.
//
// Registers: kThreadRows · kThreadCols sums, kThreadRows + kThreadCols operands, and the share of the next
// tile, (kTileRows + kTileCols) · kTileDepth / kThreads, with its addresses. 4 × 4 at 64 × 64 × 16 takes 66,
// 8 × 8 at 128 × 128 × 8 125 to 140, 16 × 8 at 128 × 128 × 16 240 registers. A share beyond 48 beside 8 × 8
// sums, or 32 beside 16 × 8, spills: such a tile wants a smaller kTileDepth. An odd extent makes the loads
// scalar, with four times the addresses, and wants a smaller share still.
//
// Edges: rows and columns past the end are read from the last row or column instead, so that the loop has no
// guard, and are dropped before the epilogue. Only a depth that kTileDepth does not divide costs a test in
// the loop.
//
// Config (all constants):
//   kCols, kDepth               extents; 0 = given at run time (then loads along that dim are scalar)
//   kWeightTransposed           weight is [cols, depth]
//   kTileRows, kTileCols        multiples of 32
//   kTileDepth                  8, 16 or 32
//   kThreadRows, kThreadCols    multiples of 4 that divide the tile into a power of two of threads
//   kSkipAboveDiagonal          optional: outputs with col > row are not wanted, tiles of nothing else are left out
//   kFillAboveDiagonal          optional: the same, but the epilogue gets 0 or the product there (gemm/diagonal.cuh)
//   kInputLowerTriangular       optional: A[row, k] is 0 for k > row, and not read beyond a tile's last row
//
// Input:
//   static constexpr bool kNormalizes;
//   template <int V> Vec<float, V> load(int row, int k) const;
//     A[row, k .. k + V), row < rows, k + V <= depth. Called any number of times: it must not write.
//   static constexpr float kEps;                                              where kNormalizes
//   template <int V> struct Parameters;                      what elements k .. k + V are scaled and shifted by,
//   template <int V> Parameters<V> parameters(int k) const;  which no kernel writes
//   template <int V> Vec<float, V> normalize(Vec<float, V> x, RowStatistics s, const Parameters<V> &p) const;
//
// Epilogue:
//   template <int V> void operator()(Vec<float, V> product, int row, int col) const;
//     Columns col .. col + V of a row, each output once.
//
// V is the widest power of two up to 4 that divides the constant extent along which the vector runs.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "device/base.cuh"
#include "device/block.cuh"
#include "device/index.cuh"
#include "device/shared.cuh"
#include "device/vec.cuh"
#include "gemm/diagonal.cuh"
#include "norm/row_statistics.cuh"
#include "shape.cuh"

namespace kiln {

/// Constants that follow from a Config: thread layout, vector widths, buffers.
template <class Config> struct SimtTiledShape {
  static constexpr int kRows = Config::kTileRows, kCols = Config::kTileCols, kDepth = Config::kTileDepth;
  static constexpr int kGroup = 4; // rows or columns that a thread reads from shared memory at once
  static constexpr int kThreadsY = kRows / Config::kThreadRows, kThreadsX = kCols / Config::kThreadCols;
  static constexpr int kThreads = kThreadsY * kThreadsX;
  // The layout of a warp's lanes over the tile: 4 × 8 where the tile has room, otherwise the shape that fills the warp.
  static constexpr int kShortY = min(4, kThreadsY);
  static constexpr int kLanesX = min(int(kWarpSize) / kShortY, kThreadsX);
  static constexpr int kLanesY = min(int(kWarpSize) / kLanesX, kThreadsY);

  static constexpr int kInputVec = widestVector(Config::kDepth, 4);
  static constexpr int kWeightVec = widestVector(Config::kWeightTransposed ? Config::kDepth : Config::kCols, 4);
  static constexpr int kOutputVec = widestVector(Config::kCols, 4);
  static constexpr bool kDepthIsExact = Config::kDepth != 0 && Config::kDepth % kDepth == 0;
  static constexpr bool kColsAreExact = Config::kCols != 0 && Config::kCols % kCols == 0;

  static constexpr int kBufferBytes = kDepth * (kRows + kCols) * int(sizeof(float));
  static constexpr int kStatisticsBytes = kRows * int(sizeof(RowStatistics));
  static constexpr int kBuffers = 2 * kBufferBytes + kStatisticsBytes <= kStaticSharedBytes ? 2 : 1;

  static_assert(kRows % 32 == 0 && kCols % 32 == 0, "the swizzle permutes within 32 rows or columns");
  static_assert(kDepth == 8 || kDepth == 16 || kDepth == 32, "kTileDepth is 8, 16 or 32");
  static_assert(Config::kThreadRows % kGroup == 0 && Config::kThreadCols % kGroup == 0, "fragments are groups of 4");
  static_assert(kRows % Config::kThreadRows == 0 && kCols % Config::kThreadCols == 0, "fragments divide the tile");
  static_assert(isPowerOfTwo(kThreadsX) && isPowerOfTwo(kThreadsY) && kThreads <= 1024, "a legal, regular block");
  static_assert(kBufferBytes + kStatisticsBytes <= kStaticSharedBytes, "the tiles fit in static shared memory");
};

/// The position of element (k, index) of a transposed operand within its shared row k. Lanes that store neighbouring
/// depths of one index (kTileDepth / 4 vectors an index) land in different banks; groups of 4 indices stay together.
template <int kTileDepth> KILN_DEVICE constexpr int swizzled(int k, int index) {
  return index ^ (k / 4 * (128 / kTileDepth));
}

template <class Config> struct SimtTiledStorage {
  using Shape = SimtTiledShape<Config>;
  alignas(16) float input[Shape::kBuffers][Shape::kDepth][Shape::kRows];
  alignas(16) float weight[Shape::kBuffers][Shape::kDepth][Shape::kCols];
  RowStatistics statistics[Shape::kRows];
};

/// The division of one operand's tile, kExtent indices (rows of A or columns of B) by kTileDepth, among a block's
/// threads: vectors along the depth (kAlongDepth) or along the index, kCount of them for each thread.
template <int kExtent, int kTileDepth, int kThreads, int kVec, bool kAlongDepth> struct TileSlots {
  static constexpr int kVectors = kExtent * kTileDepth / kVec;
  static constexpr int kCount = ceilDiv(kVectors, kThreads); // slots of a thread
  static constexpr int kPerLine = (kAlongDepth ? kTileDepth : kExtent) / kVec;

  KILN_DEVICE static int slot(int i) { return int(threadIndex()) + i * kThreads; }
  KILN_DEVICE static bool exists(int i) { return kVectors % kThreads == 0 || slot(i) < kVectors; }
  KILN_DEVICE static int index(int i) { return kAlongDepth ? slot(i) / kPerLine : slot(i) % kPerLine * kVec; }
  KILN_DEVICE static int k(int i) { return kAlongDepth ? slot(i) % kPerLine * kVec : slot(i) / kPerLine; }

  KILN_DEVICE static void commit(int i, const Vec<float, kVec> &values, float (&tile)[kTileDepth][kExtent]) {
    if constexpr (kAlongDepth) {
#pragma unroll
      for (int j = 0; j < kVec; ++j)
        tile[k(i) + j][swizzled<kTileDepth>(k(i), index(i))] = values[j];
    } else {
      storeShared(&tile[k(i)][index(i)], values);
    }
  }
};

/// The work of one thread on its block's tile.
template <class Config, class Input, class W, class Epilogue> struct SimtTiled {
  using Shape = SimtTiledShape<Config>;
  static constexpr int kInputVec = Shape::kInputVec, kWeightVec = Shape::kWeightVec;
  static constexpr bool kTransposed = Config::kWeightTransposed;
  using InputSlots = TileSlots<Shape::kRows, Shape::kDepth, Shape::kThreads, kInputVec, true>;
  using WeightSlots = TileSlots<Shape::kCols, Shape::kDepth, Shape::kThreads, kWeightVec, kTransposed>;
  static_assert(!Input::kNormalizes || Shape::kThreads % kWarpSize == 0, "row statistics take whole warps");

  const Input &input;
  const W *weight;
  const Epilogue &epilogue;
  const int rows, cols, depth;
  const int rowOrigin, colOrigin; // of the tile
  const int threadRow, threadCol; // first row and column of the thread's first groups, within the tile
  SimtTiledStorage<Config> &shared;
  Vec<float, kInputVec> nextInput[InputSlots::kCount]; // the thread's part of the next tiles
  Packed<W, kWeightVec> nextWeight[WeightSlots::kCount];
  float sums[Config::kThreadRows][Config::kThreadCols] = {};

  KILN_DEVICE SimtTiled(int rows, int cols, int depth, const Input &input, const W *weight, const Epilogue &epilogue,
                        SimtTiledStorage<Config> &shared)
      : input(input), weight(weight), epilogue(epilogue), rows(rows), cols(cols), depth(depth),
        rowOrigin(int(blockIndexY()) * Shape::kRows), colOrigin(int(blockIndexX()) * Shape::kCols),
        threadRow(threadY() * Shape::kGroup), threadCol(threadX() * Shape::kGroup), shared(shared) {}

  KILN_DEVICE static int threadX() {
    constexpr int kWarpsX = Shape::kThreadsX / Shape::kLanesX;
    return int(warpIndex()) % kWarpsX * Shape::kLanesX + int(laneIndex()) % Shape::kLanesX;
  }
  KILN_DEVICE static int threadY() {
    constexpr int kWarpsX = Shape::kThreadsX / Shape::kLanesX;
    return int(warpIndex()) / kWarpsX * Shape::kLanesY + int(laneIndex()) / Shape::kLanesX;
  }

  /// Row and column, within the tile, of sums[i][j].
  KILN_DEVICE int fragmentRow(int i) const {
    return threadRow + i / Shape::kGroup * (Shape::kThreadsY * Shape::kGroup) + i % Shape::kGroup;
  }
  KILN_DEVICE int fragmentCol(int j) const {
    return threadCol + j / Shape::kGroup * (Shape::kThreadsX * Shape::kGroup) + j % Shape::kGroup;
  }

  /// Starts the loads of the tiles at `origin` along the depth; elements past the depth are zero.
  KILN_DEVICE void fetch(int origin) {
#pragma unroll
    for (int i = 0; i < InputSlots::kCount; ++i)
      if (InputSlots::exists(i)) {
        const int k = origin + InputSlots::k(i);
        nextInput[i] = {};
        if (Shape::kDepthIsExact || k < depth)
          nextInput[i] = input.template load<kInputVec>(min(rowOrigin + InputSlots::index(i), rows - 1), k);
      }
#pragma unroll
    for (int i = 0; i < WeightSlots::kCount; ++i)
      if (WeightSlots::exists(i)) {
        const int k = origin + WeightSlots::k(i);
        const int col = min(colOrigin + WeightSlots::index(i), cols - kWeightColVec);
        nextWeight[i] = {};
        if (Shape::kDepthIsExact || k < depth)
          nextWeight[i] = loadPacked<kWeightVec>(weight + weightOffset(col, k));
      }
  }

  static constexpr int kWeightColVec = kTransposed ? 1 : kWeightVec; // columns that one weight vector spans

  KILN_DEVICE i64 weightOffset(int col, int k) const {
    return kTransposed ? i64(col) * depth + k : i64(k) * cols + col;
  }

  /// Puts the fetched tiles, the input normalised, into a shared buffer.
  KILN_DEVICE void commit(int origin, int buffer) {
#pragma unroll
    for (int i = 0; i < InputSlots::kCount; ++i)
      if (InputSlots::exists(i)) {
        if constexpr (Input::kNormalizes) {
          const int k = origin + InputSlots::k(i);
          if (Shape::kDepthIsExact || k < depth)
            nextInput[i] = input.normalize(nextInput[i], shared.statistics[InputSlots::index(i)],
                                           input.template parameters<kInputVec>(k));
        }
        InputSlots::commit(i, nextInput[i], shared.input[buffer]);
      }
#pragma unroll
    for (int i = 0; i < WeightSlots::kCount; ++i)
      if (WeightSlots::exists(i))
        WeightSlots::commit(i, nextWeight[i].unpack(), shared.weight[buffer]);
  }

  /// sums += A tile · B tile.
  KILN_DEVICE void multiply(int buffer) {
#pragma unroll
    for (int k = 0; k < Shape::kDepth; ++k) {
      float a[Config::kThreadRows], b[Config::kThreadCols];
#pragma unroll
      for (int i = 0; i < Config::kThreadRows; i += Shape::kGroup)
        readGroup(shared.input[buffer][k] + swizzled<Shape::kDepth>(k, fragmentRow(i)), a + i);
#pragma unroll
      for (int j = 0; j < Config::kThreadCols; j += Shape::kGroup)
        readGroup(shared.weight[buffer][k] +
                      (kTransposed ? swizzled<Shape::kDepth>(k, fragmentCol(j)) : fragmentCol(j)),
                  b + j);
#pragma unroll
      for (int i = 0; i < Config::kThreadRows; ++i)
#pragma unroll
        for (int j = 0; j < Config::kThreadCols; ++j)
          sums[i][j] += a[i] * b[j];
    }
  }

  KILN_DEVICE static void readGroup(const float *from, float *to) {
    const Vec<float, Shape::kGroup> group = load<Shape::kGroup>(from);
#pragma unroll
    for (int i = 0; i < Shape::kGroup; ++i)
      to[i] = group[i];
  }

  KILN_DEVICE void computeStatistics() {
    constexpr int kWarps = max(Shape::kThreads / int(kWarpSize), 1);
    constexpr int kRowsAtOnce = min(4, max(Shape::kRows / kWarps, 1));
    blockRowStatistics<kInputVec, kRowsAtOnce, Shape::kRows, kWarps>(input, rowOrigin, rows - 1, depth,
                                                                     shared.statistics);
  }

  KILN_DEVICE void accumulate(int depthEnd) {
    fetch(0);
    if constexpr (Input::kNormalizes) {
      computeStatistics();
      syncThreads();
    }
    commit(0, 0);
    syncThreads();
    int buffer = 0;
    for (int origin = 0; origin < depthEnd; origin += Shape::kDepth) {
      const int next = origin + Shape::kDepth;
      if (next < depthEnd)
        fetch(next);
      multiply(buffer);
      if (next >= depthEnd)
        break;
      if constexpr (Shape::kBuffers == 1)
        syncThreads();
      else
        buffer ^= 1;
      commit(next, buffer);
      syncThreads();
    }
  }

  KILN_DEVICE void finish() const {
    constexpr int V = Shape::kOutputVec;
#pragma unroll
    for (int i = 0; i < Config::kThreadRows; ++i) {
      const int row = rowOrigin + fragmentRow(i);
      if (row >= rows)
        continue;
#pragma unroll
      for (int j = 0; j < Config::kThreadCols; j += V) {
        const int col = colOrigin + fragmentCol(j);
        Vec<float, V> product;
#pragma unroll
        for (int v = 0; v < V; ++v)
          product[v] = sums[i][j + v];
        if (Shape::kColsAreExact || col < cols)
          epilogue(product, row, col);
      }
    }
  }
};

/// The optional settings: overload resolution prefers the first of the two, which takes an int, if Config has the
/// setting.
template <class Config>
KILN_DEVICE constexpr auto skipsAboveDiagonal(int) -> decltype(bool(Config::kSkipAboveDiagonal)) {
  return Config::kSkipAboveDiagonal;
}
template <class Config> KILN_DEVICE constexpr bool skipsAboveDiagonal(long) { return false; }

template <class Config>
KILN_DEVICE constexpr auto inputIsLowerTriangular(int) -> decltype(bool(Config::kInputLowerTriangular)) {
  return Config::kInputLowerTriangular;
}
template <class Config> KILN_DEVICE constexpr bool inputIsLowerTriangular(long) { return false; }

template <class Config, class Input, class W>
constexpr SharedBytes kSimtTiledShared = {sizeof(SimtTiledStorage<Config>), 0};

/// The kernel's body; extents that Config fixes are passed as these constants.
template <class Config, class Input, class W, class Epilogue>
KILN_DEVICE void simtTiled(int rows, int cols, int depth, const Input &input, const W *weight,
                           const Epilogue &epilogue) {
  using Shape = SimtTiledShape<Config>;
  const int lastRow = min((int(blockIndexY()) + 1) * Shape::kRows, rows) - 1; // of the tile
  const bool isAbove = int(blockIndexX()) * Shape::kCols > lastRow;           // the diagonal
  if (skipsAboveDiagonal<Config>(0) && isAbove)
    return;
  SimtTiled<Config, Input, W, Epilogue> tile(rows, Config::kCols ? Config::kCols : cols,
                                             Config::kDepth ? Config::kDepth : depth, input, weight, epilogue,
                                             sharedStorage<SimtTiledStorage<Config>>());
  if (!fillsAboveDiagonal<Config>(0) || !isAbove)
    tile.accumulate(inputIsLowerTriangular<Config>(0) ? min(tile.depth, lastRow + 1) : tile.depth);
  tile.finish();
}

/// With kCols and kDepth fixed by Config.
template <class Config, class Input, class W, class Epilogue>
KILN_DEVICE void simtTiled(int rows, const Input &input, const W *weight, const Epilogue &epilogue) {
  static_assert(Config::kCols != 0 && Config::kDepth != 0, "run-time extents are arguments");
  simtTiled<Config>(rows, Config::kCols, Config::kDepth, input, weight, epilogue);
}

} // namespace kiln
