//===- mma_tiled.cuh - matrix product in tensor cores ---------------------------===//
//
// out[rows, cols] = A[rows, depth] · weight[cols, depth]^T, both contiguous, elements of bf16, f16, or float (whose
// products are tf32), sums in float; sm_80 and up. Epilogue receives the sums, applies the ops that follow the product,
// and stores the results.
//
// Method: a block owns a kTileM × kTileN tile of the output and walks the depth in steps of 128 bytes of each row.
// kStages steps of both operands are in shared memory or on their way there (cp.async), so that loads have kStages - 1
// steps of time. Each warp multiplies a part of the tile; its operands for the next 32 bytes of depth are loaded into
// registers (ldmatrix) while the current ones are multiplied (mma.sync).
//
// Shared memory: kStages · (kTileM + kTileN) · 128 bytes, all dynamic. A row's eight chunks of 16 bytes are
// permuted by a key of the row (swizzledOffset): the eight rows of a matrix load have different keys, so that
// it has no bank conflicts.
//
// Which lane holds what: the instruction gives a lane columns 2p and 2p + 1 of each 8 columns, p = lane % 4. The
// mapping of rows of weight to columns of an instruction is free, though. In each 32 columns the template assigns 8p +
// 2j and the next one to place p of instruction j, so that a lane ends up with 8 neighbouring columns, a vector for the
// epilogue.
//
// Launch: grid (ceildiv(cols, kTileN), ceildiv(rows, kTileM)), block 32 · kWarpsM · kWarpsN. Tiles are taken
// in groups of 8 along M, so that the blocks that run at a time share operands in L2.
//
// Edges: rows and columns past the end are read from others instead, and dropped before the epilogue. (Not all from the
// last one: many blocks would read one line of L2 at a time.) The depth is a multiple of 16 bytes; its last step is
// padded with zeros.
//
// Registers: the sums take kTileM · kTileN / threads, operands 64 at 64 × 64 a warp, which is the most that a warp can
// have. It takes about 220.
//
// The weight is read before waitForDependencies(): another kernel must not write it.
//
// Config (all constants):
//   kCols, kDepth       extents
//   kTileM, kTileN      multiples of 16 · kWarpsM and 32 · kWarpsN
//   kStages             2 or more
//   kWarpsM, kWarpsN    warps along M and N
//
// Epilogue: its operands are loaded ahead of its stores, as in gemv/simt_row.cuh, those of rows (epilogue.cuh) before
// all others. Its V is the widest power of two up to 8 that divides kCols.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "device/async_copy.cuh"
#include "device/base.cuh"
#include "device/block.cuh"
#include "device/grid.cuh"
#include "device/index.cuh"
#include "device/shared.cuh"
#include "device/tensor_core.cuh"
#include "device/vec.cuh"
#include "epilogue.cuh"
#include "gemm/tile_order.cuh"
#include "shape.cuh"

namespace kiln {

/// Constants that follow from a Config for elements of type T.
template <class Config, class T> struct MmaTiledShape {
  static constexpr int kM = Config::kTileM, kN = Config::kTileN, kStages = Config::kStages;
  static constexpr int kWarpM = kM / Config::kWarpsM, kWarpN = kN / Config::kWarpsN; // a warp's part
  static constexpr int kThreads = int(kWarpSize) * Config::kWarpsM * Config::kWarpsN;
  static constexpr int kChunk = int(kChunkBytes / sizeof(T));      // elements of 16 bytes
  static constexpr int kStep = int(kSwizzledRowBytes / sizeof(T)); // of the depth
  static constexpr int kSteps = ceilDiv(Config::kDepth, kStep);
  static constexpr int kParts = 4; // of a step: 32 bytes each, the depth of an instruction
  static constexpr bool kDepthIsExact = Config::kDepth % kStep == 0;
  static constexpr bool kColsAreExact = Config::kCols % kN == 0;
  static constexpr int kOutputVec = widestVector(Config::kCols, 8);

  static constexpr int kRowsAtOnce = kThreads / int(kRowChunks); // that the threads copy
  static constexpr int kCopiesA = kM / kRowsAtOnce, kCopiesB = kN / kRowsAtOnce;
  static constexpr u32 kStageBytes = (kM + kN) * kSwizzledRowBytes, kOffsetB = kM * kSwizzledRowBytes;
  static constexpr int kInstructionsM = kWarpM / 16, kInstructionsN = kWarpN / 8;

  static_assert(kM % (16 * Config::kWarpsM) == 0 && kN % (32 * Config::kWarpsN) == 0, "warps take whole instructions");
  static_assert(kWarpM * kWarpN <= 64 * 64, "sums and two sets of operands fit in registers");
  static_assert(kM % kRowsAtOnce == 0 && kN % kRowsAtOnce == 0, "every thread copies as much");
  static_assert(kRowsAtOnce % 8 == 0, "the rows that a thread copies are permuted alike: two warps or more");
  static_assert(Config::kDepth % kChunk == 0, "rows are whole chunks of 16 bytes");
  static_assert(kStages >= 2, "one step is multiplied while another arrives");
};

template <class Config, class T> struct MmaTiledStorage {
  alignas(128) u8 stages[Config::kStages][MmaTiledShape<Config, T>::kStageBytes];
};

/// The place of this block's tile.
KILN_DEVICE TilePlace tileOfBlock() {
  const int tilesN = int(gridBlocksX());
  return groupedTile<8>(int(blockIndexY()) * tilesN + int(blockIndexX()), int(gridBlocksY()), tilesN);
}

/// The key that permutes the chunks of a row of B, given the row in the tile: it differs among the eight rows of weight
/// that are the columns of an instruction.
KILN_DEVICE constexpr u32 keyOfColumn(u32 n) { return n % 2 + n / 8 % 4 * 2; }

/// The place in a warp's part of A that a lane's first matrix load reads: rows 0-7 and 8-15 of the first chunk, then of
/// the second.
KILN_DEVICE constexpr u32 matrixLoadOffsetA(u32 lane) { return swizzledOffset(lane % 16, lane / 16, lane % 8); }
/// The place for a lane's first matrix load of B: both chunks of the columns of instruction 0, then of instruction 1.
KILN_DEVICE constexpr u32 matrixLoadOffsetB(u32 lane) {
  const u32 column = lane % 8, row = column / 2 * 8 + column % 2 + lane / 16 * 2;
  return swizzledOffset(row, lane / 8 % 2, keyOfColumn(row));
}

/// The largest 2^n - 1 below `count`: x & lowBitsBelow(count) is below count for any x.
KILN_DEVICE constexpr int lowBitsBelow(int count) {
  u32 bits = u32(count) >> 1;
  for (int shift = 1; shift < 32; shift *= 2)
    bits |= bits >> shift;
  return int(bits);
}

/// The work of one thread on its block's tile: on one of kSplits parts of the depth.
template <class Config, class T, int kSplits = 1> struct MmaTiled {
  using Shape = MmaTiledShape<Config, T>;
  static constexpr int kM = Shape::kInstructionsM, kN = Shape::kInstructionsN;
  static constexpr int kMostSteps = ceilDiv(Shape::kSteps, kSplits);
  static_assert(kMostSteps * (kSplits - 1) < Shape::kSteps, "every part has a step");

  KILN_DEVICE static int split() { return kSplits == 1 ? 0 : int(blockIndexZ()); }
  KILN_DEVICE static int firstStep() { return split() * kMostSteps; }
  KILN_DEVICE static int steps() { return kSplits == 1 ? Shape::kSteps : min(kMostSteps, Shape::kSteps - firstStep()); }

  /// The fragments of both operands for one part of a step.
  struct Fragments {
    MmaA a[kM];
    MmaB b[kN];
  };

  const T *const a, *const b;           // this thread's chunk of the part's first step, in the tile's first row
  const int rowsA, rowsB;               // of the tile that are in the operand
  const int chunk;                      // of the rows that the thread copies
  const SharedAddress target;           // of the first copy, in stage 0
  const u32 targetB;                    // from there to the first copy of B
  const SharedAddress sourceA, sourceB; // of the warp's loads, in stage 0, part 0
  MmaSums sums[kM][kN] = {};

  KILN_DEVICE MmaTiled(MmaTiledStorage<Config, T> &shared, const T *input, const T *weight, TilePlace origin, int rows)
      : a(input + i64(origin.m) * Shape::kM * Config::kDepth + firstColumn()),
        b(weight + i64(origin.n) * Shape::kN * Config::kDepth + firstColumn()), rowsA(rows - origin.m * Shape::kM),
        rowsB(Config::kCols - origin.n * Shape::kN), chunk(int(threadIndex() % kRowChunks)),
        target(SharedAddress(&shared) + swizzledOffset(copiedRow(), chunk, copiedRow())),
        targetB(Shape::kOffsetB + swizzledOffset(copiedRow(), chunk, keyOfColumn(copiedRow())) -
                swizzledOffset(copiedRow(), chunk, copiedRow())),
        sourceA(SharedAddress(&shared) + (u32(warpM()) * kSwizzledRowBytes + matrixLoadOffsetA(laneIndex()))),
        sourceB(SharedAddress(&shared) +
                (Shape::kOffsetB + u32(warpN()) * kSwizzledRowBytes + matrixLoadOffsetB(laneIndex()))) {}

  /// The position in a row of the thread's chunk of the part's first step.
  KILN_DEVICE static int firstColumn() {
    return firstStep() * Shape::kStep + int(threadIndex() % kRowChunks) * Shape::kChunk;
  }
  /// The first of the rows, kRowsAtOnce apart, whose chunk the thread copies.
  KILN_DEVICE static u32 copiedRow() { return threadIndex() / kRowChunks; }

  KILN_DEVICE static int warpM() { return int(warpIndex()) / Config::kWarpsN * Shape::kWarpM; }
  KILN_DEVICE static int warpN() { return int(warpIndex()) % Config::kWarpsN * Shape::kWarpN; }

  /// Starts the copies of a step's operand into a stage.
  template <bool kIsB, int kCopies>
  KILN_DEVICE void copy(const T *from, int rows, SharedAddress to, int step) const {
    const bool isInDepth =
        Shape::kDepthIsExact || (firstStep() + step) * Shape::kStep + chunk * Shape::kChunk < Config::kDepth;
    const T *source = from + step * Shape::kStep;
    const int others = lowBitsBelow(rows);
#pragma unroll
    for (int i = 0; i < kCopies; ++i) {
      const int row = int(copiedRow()) + i * Shape::kRowsAtOnce;
      // Rows of A that a thread copies have one key; those of B differ in what is constant here.
      const u32 below = u32(i * Shape::kRowsAtOnce), flips = kIsB ? keyOfColumn(below) * kChunkBytes : 0;
      const SharedAddress place = (to ^ flips) + below * kSwizzledRowBytes;
      const int read = (kIsB && Shape::kColsAreExact) || row < rows ? row : row & others;
      if constexpr (Shape::kDepthIsExact)
        copyAsync(place, source + i64(read) * Config::kDepth);
      else
        copyAsync(place, source + i64(read) * Config::kDepth, isInDepth ? kChunkBytes : 0);
    }
  }
  KILN_DEVICE void copyA(int step, u32 stage) const { copy<false, Shape::kCopiesA>(a, rowsA, target + stage, step); }
  KILN_DEVICE void copyB(int step, u32 stage) const {
    copy<true, Shape::kCopiesB>(b, rowsB, target + (stage + targetB), step);
  }

  /// Loads one part of a stage's operands; `stage` is its byte offset.
  KILN_DEVICE void loadFragments(Fragments &to, u32 stage, u32 part) const {
    const SharedAddress fromA = (sourceA + stage) ^ (part * 2 * kChunkBytes);
    const SharedAddress fromB = (sourceB + stage) ^ (part * 2 * kChunkBytes);
#pragma unroll
    for (int m = 0; m < kM; ++m) {
      loadMatrices(to.a[m].words, fromA + u32(m * 16) * kSwizzledRowBytes);
      roundFactors<T>(to.a[m].words);
    }
#pragma unroll
    for (int n = 0; n < kN; n += 2) {
      u32 words[4];
      loadMatrices(words, fromB + u32(n / 4 * 32 + n % 4 * 2) * kSwizzledRowBytes);
      roundFactors<T>(words);
      to.b[n] = {{words[0], words[1]}};
      to.b[n + 1] = {{words[2], words[3]}};
    }
  }

  KILN_DEVICE void multiply(const Fragments &fragments) {
#pragma unroll
    for (int m = 0; m < kM; ++m)
#pragma unroll
      for (int n = 0; n < kN; ++n) {
        // There and back again: neighbouring instructions share an operand.
        const int column = m % 2 ? kN - 1 - n : n;
        multiplyAdd<T>(sums[m][column], fragments.a[m], fragments.b[column]);
      }
  }

  /// Starts the first kStages - 1 steps; those of the weight before anything that another kernel may still
  /// write.
  KILN_DEVICE void start() const {
#pragma unroll
    for (int i = 0; i < Shape::kStages - 1; ++i)
      if (i < steps())
        copyB(i, u32(i) * Shape::kStageBytes);
    waitForDependencies();
#pragma unroll
    for (int i = 0; i < Shape::kStages - 1; ++i) {
      if (i < steps())
        copyA(i, u32(i) * Shape::kStageBytes);
      commitAsyncCopies();
    }
  }

  static constexpr u32 kRingBytes = Shape::kStages * Shape::kStageBytes;
  KILN_DEVICE static u32 nextStage(u32 stage) {
    return stage + Shape::kStageBytes == kRingBytes ? 0 : stage + Shape::kStageBytes;
  }

  /// Starts the step that is furthest ahead, into a stage that no thread reads any more.
  KILN_DEVICE void startAhead(int step, u32 &free) const {
    const int ahead = step + Shape::kStages - 1;
    if (ahead < steps()) {
      copyA(ahead, free);
      copyB(ahead, free);
    }
    commitAsyncCopies();
    free = nextStage(free);
  }

  KILN_DEVICE void accumulate() {
    start();
    u32 stage = 0, free = (Shape::kStages - 1) * Shape::kStageBytes;
    waitAsyncCopies<Shape::kStages - 2>();
    syncThreads();
    Fragments fragments[2];
    loadFragments(fragments[0], 0, 0);
#pragma unroll 1
    for (int step = 0; step < steps(); ++step) {
#pragma unroll
      for (int part = 0; part < Shape::kParts; ++part) {
        if (part == Shape::kParts - 1) {
          // The next stage has arrived; no thread reads this one any more: its last part is in registers.
          stage = nextStage(stage);
          waitAsyncCopies<Shape::kStages - 2>();
          syncThreads();
        }
        if (part < Shape::kParts - 1 || step + 1 < steps())
          loadFragments(fragments[(part + 1) % 2], stage, u32(part + 1) % Shape::kParts);
        if (part == 0)
          startAhead(step, free);
        multiply(fragments[part % 2]);
      }
    }
  }

  /// The place of the thread's i-th four sums in a part: those of all threads are neighbours.
  KILN_DEVICE static int placeInPart(int i) { return (i * Shape::kThreads + int(threadIndex())) * 4; }

  /// Writes the sums into a part.
  KILN_DEVICE void write(float *part) const {
#pragma unroll
    for (int i = 0; i < kM * kN; ++i) {
      const float(&values)[4] = sums[i / kN][i % kN].values;
      store(part + placeInPart(i), Vec<float, 4>{{values[0], values[1], values[2], values[3]}});
    }
  }
  /// The sums of all parts, `distance` elements apart.
  KILN_DEVICE void addParts(const float *parts, i64 distance) {
#pragma unroll
    for (int i = 0; i < kM * kN; ++i) {
      Vec<float, 4> sum = load<4>(parts + placeInPart(i));
#pragma unroll
      for (int part = 1; part < kSplits; ++part)
        sum += load<4>(parts + part * distance + placeInPart(i));
#pragma unroll
      for (int j = 0; j < 4; ++j)
        sums[i / kN][i % kN].values[j] = sum[j];
    }
  }

  // A thread passes rows that are 8 apart to the epilogue, and this many vectors of each.
  static constexpr int V = Shape::kOutputVec, kRowVectors = 2 * kN / V, kVectors = 2 * kM * kRowVectors;

  /// The i-th vector.
  KILN_DEVICE Vec<float, V> product(int i) const {
    const int row = i / kRowVectors;
    Vec<float, V> values;
#pragma unroll
    for (int v = 0; v < V; ++v) {
      // Two neighbours of a row come from one instruction.
      const int element = i % kRowVectors * V + v;
      values[v] = sums[row / 2][element / 2].values[row % 2 * 2 + element % 2];
    }
    return values;
  }
  /// Its place in the warp's part.
  KILN_DEVICE static int rowOf(int i) { return int(laneIndex()) / 4 + i / kRowVectors * 8; }
  KILN_DEVICE static int colOf(int i) {
    const int element = i % kRowVectors * V;
    return element / 8 * 32 + int(laneIndex()) % 4 * 8 + element % 8;
  }

  /// Passes the sums to the epilogue, some vectors at a time: the epilogue's loads for all of them are issued before
  /// the first of them is stored. kWhole: the tile has no row past the end.
  template <bool kWhole, class Epilogue>
  KILN_DEVICE void emit(const Epilogue &epilogue, TilePlace origin, int rows) const {
    using Operands = typename Epilogue::template Operands<V>;
    using OfRow = RowOperandsOf<Epilogue>;
    // As many as fit into twice the registers of the fragments, which are free by then; values that are the same in
    // every row are loaded once. Short vectors need an address each, so only those of 8 columns are taken.
    constexpr int kFit = max(1, int(4 * sizeof(Fragments) / sizeof(Operands))), kAtOnce = V == 8 ? kFit : 8 / V;
    const int firstRow = origin.m * Shape::kM + warpM(), firstCol = origin.n * Shape::kN + warpN();
    typename OfRow::Type ofRow[2 * kM];
#pragma unroll
    for (int i = 0; i < 2 * kM; ++i) {
      const int row = firstRow + rowOf(i * kRowVectors);
      ofRow[i] = OfRow::load(epilogue, kWhole ? row : min(row, rows - 1));
    }
#pragma unroll
    for (int first = 0; first < kVectors; first += kAtOnce) {
      const int end = min(first + kAtOnce, kVectors);
      Operands operands[kAtOnce];
#pragma unroll
      for (int i = first; i < end; ++i) {
        const int row = firstRow + rowOf(i), col = firstCol + colOf(i);
        operands[i - first] = epilogue.template operands<V>(kWhole ? row : min(row, rows - 1),
                                                            Shape::kColsAreExact ? col : min(col, Config::kCols - V));
      }
#pragma unroll
      for (int i = first; i < end; ++i) {
        const int row = firstRow + rowOf(i), col = firstCol + colOf(i);
        passProduct(epilogue, product(i), operands[i - first], ofRow[i / kRowVectors], row, col,
                    (kWhole || row < rows) && (Shape::kColsAreExact || col < Config::kCols));
      }
    }
  }

  template <class Epilogue>
  KILN_DEVICE void finish(const Epilogue &epilogue, TilePlace origin, int rows) const {
    if ((origin.m + 1) * Shape::kM <= rows)
      emit<true>(epilogue, origin, rows);
    else
      emit<false>(epilogue, origin, rows);
  }
};

template <class Config, class T>
constexpr SharedBytes kMmaTiledShared = {0, sizeof(MmaTiledStorage<Config, T>)};

/// The kernel's body.
template <class Config, class T, class Epilogue>
KILN_DEVICE void mmaTiled(int rows, const T *input, const T *weight, const Epilogue &epilogue) {
  allowDependents();
  const TilePlace origin = tileOfBlock();
  MmaTiled<Config, T> tile(dynamicShared<MmaTiledStorage<Config, T>>(), input, weight, origin, rows);
  tile.accumulate();
  tile.finish(epilogue, origin, rows);
}

} // namespace kiln
