//===- mma_warps_copies.cuh - what mma_warps.cuh multiplies, in shared memory -------===//
//
// The copies of a warp's weights and rows, and the places of their fragments. Addresses are computed before the kernel
// waits for the one before it, since behind the wait every instruction counts (device/computed_here.cuh).
//
//===----------------------------------------------------------------------===//
#pragma once

#include "device/async_copy.cuh"
#include "device/base.cuh"
#include "device/computed_here.cuh"
#include "device/grid.cuh"
#include "device/index.cuh"
#include "device/shared.cuh"
#include "device/tensor_core.cuh"
#include "gemv/mma_warps_shape.cuh"

namespace kiln {

/// Where a lane finds what it copies and multiplies in lines, rows of 128 bytes of shared memory: a chunk of every
/// fourth line, and fragments of 8 of them. The first addresses are computed before the kernel waits.
struct MmaWarpsLane {
  static constexpr u32 kLinesAtOnce = kWarpSize / kRowChunks, kHalfLine = kSwizzledRowBytes / 2;

  KILN_DEVICE static u32 line() { return laneIndex() / kRowChunks; }
  KILN_DEVICE static u32 chunk() { return laneIndex() % kRowChunks; }

  /// Its chunk of the first of its lines, and of the i-th one.
  KILN_DEVICE static SharedAddress firstChunk(SharedAddress lines) {
    return computedHere(lines + swizzledOffset(line(), chunk(), line()));
  }
  KILN_DEVICE static SharedAddress chunkOf(SharedAddress first, int i) {
    return (first ^ u32(i) % 2 * kHalfLine) + u32(i) * kLinesAtOnce * kSwizzledRowBytes;
  }

  /// Its fragments of the first 8 lines for two instructions. Lines from `count` on repeat the last one.
  KILN_DEVICE static SharedAddress firstFragments(SharedAddress lines, int count) {
    const u32 line = u32(min(int(laneIndex()) % 8, count - 1));
    return computedHere(lines + swizzledOffset(line, laneIndex() / 8, line));
  }
  /// The words for the first instruction of a pair, then for the second.
  KILN_DEVICE static void loadPair(u32 (&words)[4], SharedAddress firstFragments, u32 distance, int pair) {
    loadMatrices(words, (firstFragments ^ u32(pair) * kHalfLine) + distance);
  }
};

/// The operands of one lane.
template <class Config, class T> struct MmaWarpsCopies {
  using Shape = MmaWarpsShape<Config, T>;
  using Lane = MmaWarpsLane;
  using Cut = typename Shape::Cut;
  static constexpr int kUnroll = Shape::kUnroll, kChains = Shape::kOwnChains, kHalves = Shape::kRows / 8;
  static constexpr int kRowChains = Shape::kSharesRows ? 1 : kChains; // for which a lane copies rows
  static constexpr u32 kHalfBytes = 8 * kSwizzledRowBytes;

  const T *weight;
  MmaWarpsStorage<Config, T> &shared;
  const int rows; // of the block
  // The rows from the lane's first line on; where its chunk of that one is at the first step of each chain; and its
  // places in shared memory.
  const int rowsFromLine = computedHere(rows - int(Lane::line()));
  const T *ownRows[kRowChains];
  const SharedAddress chunks = Lane::firstChunk(stages()), fragments = Lane::firstFragments(stages(), 8);
  const SharedAddress rowChunks = Lane::firstChunk(linesOfRows());
  // Of 8 rows, and of 8 more; where there are no more, of the first ones again, whose products nobody stores.
  const SharedAddress lowFragments = Lane::firstFragments(linesOfRows(), rows);
  const SharedAddress highFragments =
      kHalves == 1 ? lowFragments
                   : Lane::firstFragments(linesOfRows() + (rows > 8 ? kHalfBytes : 0), rows > 8 ? rows - 8 : rows);

  KILN_DEVICE MmaWarpsCopies(const T *a, const T *weight, int firstRow, int allRows, MmaWarpsStorage<Config, T> &shared)
      : weight(weight), shared(shared), rows(min(allRows - firstRow, Shape::kRows)) {
    a += i64(firstRow + int(Lane::line())) * Config::kDepth + int(Lane::chunk()) * Shape::kChunk;
#pragma unroll
    for (int chain = 0; chain < kRowChains; ++chain)
      ownRows[chain] = computedHere(a + Cut::firstStep(Shape::depthWarp() * kChains + chain) * Shape::kStep);
  }

  /// The lines of the warp's stages, and those of the rows at their first step.
  KILN_DEVICE SharedAddress stages() const {
    return SharedAddress(shared.stages[min(int(warpIndex()), Shape::kMultipliers - 1)]);
  }
  KILN_DEVICE SharedAddress linesOfRows() const {
    return Shape::kSharesRows ? SharedAddress(shared.rows) : stages() + Shape::kStageCols * kSwizzledRowBytes;
  }
  /// From the first lines to those of a step of one of the warp's chains in a buffer, in bytes.
  KILN_DEVICE static constexpr u32 distanceOf(int buffer, int chain, int u) {
    return u32(buffer * Shape::kStageLines + (chain * kUnroll + u) * Shape::kStepLines) * kSwizzledRowBytes;
  }
  KILN_DEVICE static constexpr u32 distanceOfShared(int step) {
    return u32(min(step, Shape::kSteps - 1) * Shape::kRows) * kSwizzledRowBytes;
  }

  /// Starts the copy of kLines lines of a step, whose first chunk goes to `first`; zeros past the depth. The lane's
  /// i-th chunk is at from(i, isInside), which is not read unless it is inside. Lines from `end` on, counted from the
  /// lane's first one, are left out.
  template <int kLines, class From>
  KILN_DEVICE static void copyStep(SharedAddress first, int step, bool exists, int end, From from) {
    const bool isInside =
        exists && (Shape::kDepthIsExact || step * Shape::kStep + int(Lane::chunk()) * Shape::kChunk < Config::kDepth);
#pragma unroll
    for (int i = 0; i < kLines / int(Lane::kLinesAtOnce); ++i)
      if (i * int(Lane::kLinesAtOnce) < end)
        copyAsync(Lane::chunkOf(first, i), from(i, isInside), isInside ? kChunkBytes : 0);
  }

  /// body(chain, unrolled step, step of the chain, step of the depth, whether it is the chain's) for each of a stage.
  template <class Body> KILN_DEVICE static void forEachStep(int stage, Body body) {
#pragma unroll
    for (int chain = 0; chain < kChains; ++chain) {
      const int index = Shape::depthWarp() * kChains + chain, first = Cut::firstStep(index), count = Cut::steps(index);
#pragma unroll
      for (int u = 0; u < kUnroll; ++u) {
        const int ofChain = stage * kUnroll + u;
        body(chain, u, ofChain, first + ofChain, Shape::kStepsAreEven || ofChain < count);
      }
    }
  }

  /// Copies the weights of a stage. Columns past the end repeat the last one.
  KILN_DEVICE void copyWeights(int stage) const {
    const int col = Shape::warpCol(stage / Shape::kStages) + int(Lane::line());
    forEachStep(stage % Shape::kStages, [&](int chain, int u, int, int step, bool exists) {
      const int k = step * Shape::kStep + int(Lane::chunk()) * Shape::kChunk;
      copyStep<Shape::kWarpCols>(chunks + distanceOf(stage % Shape::kBuffers, chain, u), step, exists, Shape::kWarpCols,
                                 [&](int i, bool isInside) {
                                   const int line = min(col + i * int(Lane::kLinesAtOnce), Config::kCols - 1);
                                   return weight + i64(line) * Config::kDepth + (isInside ? k : 0);
                                 });
    });
  }
  /// Copies the rows of a stage.
  KILN_DEVICE void copyRows(int stage) const {
    forEachStep(stage % Shape::kStages, [&](int chain, int u, int ofChain, int step, bool exists) {
      copyStep<Shape::kRows>(rowChunks + distanceOf(stage % Shape::kBuffers, chain, u), step, exists, rowsFromLine,
                             [&](int i, bool isInside) {
                               return ownRows[chain] + i * int(Lane::kLinesAtOnce) * Config::kDepth +
                                      (isInside ? ofChain * Shape::kStep : 0);
                             });
    });
  }
  /// Copies all of the rows, for all warps.
  KILN_DEVICE void copySharedRows() const {
    for (int step = int(warpIndex()); step < Shape::kSteps; step += Shape::kMultipliers)
      copyStep<Shape::kRows>(rowChunks + distanceOfShared(step), step, true, rowsFromLine, [&](int i, bool isInside) {
        return ownRows[0] + i * int(Lane::kLinesAtOnce) * Config::kDepth + (isInside ? step * Shape::kStep : 0);
      });
  }

  /// Starts the copies of the first stages' weights.
  KILN_DEVICE void begin() const {
    for (int stage = 0; stage < Shape::kBuffers; ++stage) {
      if (Shape::firstCol(stage / Shape::kStages) < Config::kCols)
        copyWeights(stage);
      commitAsyncCopies();
    }
  }

  /// Starts the copies of the first stages' rows, behind waitForDependencies().
  KILN_DEVICE void beginRows() const {
    if constexpr (Shape::kSharesRows) {
      copySharedRows();
      commitAsyncCopies();
    } else {
#pragma unroll
      for (int stage = 0; stage < Shape::kBuffers; ++stage) {
        copyRows(stage);
        commitAsyncCopies();
      }
    }
  }

  /// The fragments of a pair of instructions in a step of one of the warp's chains: of a half of the rows, and of 8
  /// columns of the weight.
  KILN_DEVICE void loadRows(u32 (&words)[4], int half, int stage, int chain, int u, int pair) const {
    const int step = Cut::firstStep(Shape::depthWarp() * kChains + chain) + stage % Shape::kStages * kUnroll + u;
    Lane::loadPair(words, half == 0 ? lowFragments : highFragments,
                   Shape::kSharesRows ? distanceOfShared(step) : distanceOf(stage % Shape::kBuffers, chain, u), pair);
  }
  KILN_DEVICE void loadWeight(u32 (&words)[4], int n, int stage, int chain, int u, int pair) const {
    Lane::loadPair(words, fragments, distanceOf(stage % Shape::kBuffers, chain, u) + u32(n) * kHalfBytes, pair);
  }
};

} // namespace kiln
