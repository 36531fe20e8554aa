//===- mma_warps_shape.cuh - constants and memory of mma_warps.cuh -----------------===//
#pragma once

#include "device/base.cuh"
#include "device/index.cuh"
#include "device/shared.cuh"
#include "gemv/depth_cut.cuh"
#include "shape.cuh"

namespace kiln {

/// Constants that follow from a Config for elements of type T.
template <class Config, class T> struct MmaWarpsShape {
  static constexpr int kRows = Config::kRows, kTilesN = Config::kTilesN, kUnroll = Config::kUnroll;
  static constexpr int kWarpsN = Config::kWarpsN, kDepthWarps = Config::kDepthWarps, kTurns = Config::kTurns;
  static constexpr int kStep = 128 / int(sizeof(T)), kSteps = ceilDiv(Config::kDepth, kStep); // of the depth
  using Cut = DepthCut<kSteps, Config::kRanges, Config::kChains>;
  static constexpr int kParts = 4;                            // instructions of a step
  static constexpr int kChunk = int(kChunkBytes / sizeof(T)); // elements of 16 bytes
  static constexpr int kOwnChains = Cut::kAllChains / kDepthWarps;
  static constexpr int kStages = ceilDiv(Cut::kMostSteps, kUnroll); // of a chain
  static constexpr int kSequence = kStages * kTurns, kBuffers = min(Config::kBuffers, kSequence);
  static constexpr bool kDepthIsExact = Config::kDepth % kStep == 0;
  static constexpr bool kStepsAreEven = Cut::kIsEven && Cut::kMostSteps % kUnroll == 0;

  // Sums of a warp behind its products: of its ranges if they are whole, else of its chains.
  static constexpr bool kHasRanges = kOwnChains % Config::kChains == 0;
  static constexpr int kOwnSums = kHasRanges ? kOwnChains / Config::kChains : kOwnChains;
  static constexpr int kSums = kOwnSums * kDepthWarps, kSumsOfRange = kHasRanges ? 1 : Config::kChains;

  static constexpr int kWarpCols = 8 * kTilesN, kTileN = kWarpCols * kWarpsN;
  static constexpr int kMultipliers = kWarpsN * kDepthWarps, kLoaders = kRows / 4; // warps
  static constexpr int kThreads = (kMultipliers + kLoaders) * int(kWarpSize);
  static constexpr int V = widestVector(Config::kCols, 2);
  static constexpr int kSumsStride = kTileN + (kTileN % 16 == 0 ? 8 : 0);
  // In shared memory: the rows of a stage, those of the weight first; and rows of A that all warps share.
  static constexpr bool kSharesRows = kDepthWarps == 1;
  static constexpr int kStageCols = kWarpCols, kStageRows = kSharesRows ? 0 : kRows;
  static constexpr int kStepLines = kStageCols + kStageRows, kStageLines = kOwnChains * kUnroll * kStepLines;
  // The epilogue calls of a block whose warps share columns.
  static constexpr int kRowOutputs = kTileN / V, kOutputs = kRows * kRowOutputs;
  static constexpr int kOwnOutputs = ceilDiv(kOutputs, kThreads);

  /// The place of a warp among those along columns, and among those that share the depth.
  KILN_DEVICE static int warpN() { return int(warpIndex()) % kWarpsN; }
  KILN_DEVICE static int depthWarp() { return int(warpIndex()) / kWarpsN; }
  /// The first column of a turn of the block, and of the warp in it.
  KILN_DEVICE static int firstCol(int turn) { return (int(blockIndexX()) * kTurns + turn) * kTileN; }
  KILN_DEVICE static int warpCol(int turn) { return firstCol(turn) + warpN() * kWarpCols; }

  static_assert(sizeof(T) == 2, "bf16 or f16");
  static_assert(kRows == 8 || kRows == 16, "rows of an instruction");
  static_assert(Config::kDepth % kChunk == 0, "rows are whole chunks of 16 bytes");
  static_assert(Cut::kAllChains % kDepthWarps == 0, "warps have equal numbers of chains");
  static_assert(kUnroll >= 1 && kUnroll <= Cut::kMostSteps, "a stage has steps of the chains");
  static_assert(kTurns >= 1 && (kTurns == 1 || kDepthWarps == 1), "warps that share columns meet once");
  static_assert(kThreads <= 1024, "a legal block");
};

template <class Config, class T> struct MmaWarpsStorage {
  using Shape = MmaWarpsShape<Config, T>;
  alignas(128) u8 stages[Shape::kMultipliers][Shape::kBuffers][Shape::kStageLines][kSwizzledRowBytes];
  alignas(128) u8 rows[Shape::kSharesRows ? Shape::kSteps * Shape::kRows : 1][kSwizzledRowBytes];
  alignas(16) float sums[Shape::kDepthWarps > 1 ? Shape::kSums : 1][Shape::kDepthWarps > 1 ? Shape::kRows : 1]
                        [Shape::kDepthWarps > 1 ? Shape::kSumsStride : 4];
  alignas(16) u8 ofRows[Shape::kRows][16]; // what the epilogue reads of each row
};

template <class Config, class T>
constexpr SharedBytes kMmaWarpsShared = {0, sizeof(MmaWarpsStorage<Config, T>)};

} // namespace kiln
