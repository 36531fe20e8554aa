//===- wgmma_rows_shape.cuh - constants and memory of wgmma_rows.cuh ---------------===//
#pragma once

#include "device/barrier.cuh"
#include "device/base.cuh"
#include "device/index.cuh"
#include "device/shared.cuh"
#include "device/warpgroup.cuh"
#include "exchange/ranks.cuh"
#include "gemv/depth_cut.cuh"
#include "row_mail.cuh"
#include "shape.cuh"

namespace kiln {

/// Constants that follow from a Config for elements of type T.
template <class Config, class T> struct WgmmaRowsShape {
  static constexpr int kRows = Config::kRows, kN = Config::kTileN;
  static constexpr int kStages = Config::kStages, kRowStages = Config::kRowStages;
  static constexpr int kParts = Config::kParts, kGroups = Config::kGroups, kRanges = kParts * kGroups;
  static constexpr int kChains = Config::kChains;
  static constexpr int kTurns = Config::kTurns, kTiles = ceilDiv(Config::kCols, kN);
  static constexpr int kConsumers = kGroups * int(kWarpgroupSize), kThreads = kConsumers + int(kWarpgroupSize);
  // Warps that load operands of rows; with mail, one of them computes such for all blocks.
  static constexpr bool kMails = mailsRows<Config>(0), kReadsRows = kMails && readsRows<Config>(0);
  static constexpr int kLoaders = kMails ? 2 : 3;
  static constexpr int kStep = int(kSwizzledRowBytes / sizeof(T)); // of the depth
  static constexpr int kSteps = ceilDiv(Config::kDepth, kStep);    // of all ranges
  static constexpr int kMostSteps = ceilDiv(kSteps, kRanges);      // of a range
  static constexpr bool kReusesStages = kTurns > 1 || kStages < kMostSteps;
  using Cut = DepthCut<kSteps, kRanges, kChains>;
  static constexpr int kInstructions = 4; // of a step: 32 bytes each
  // An instruction reads 64 rows of its left operand, be there so many or not. So the weight is the left one, 64
  // columns an instruction, where that is fewer bytes of shared memory, which is what products take their time for.
  static constexpr bool kWeightIsLeft = kRows < 64 && kN % 64 == 0;
  static constexpr int kPieces = kWeightIsLeft ? kN / 64 : 1; // instructions for all columns of a tile
  using Sums = WarpgroupSums<(kWeightIsLeft ? kRows : kN) / 8>;
  static constexpr u32 kRowBytes = kSwizzledRowBytes, kBytesB = kN * kRowBytes;
  static constexpr bool kColsAreExact = Config::kCols % kN == 0;
  static constexpr bool kCopiesRowsAtOnce = Config::kRowStages == kMostSteps && Config::kDepth % kStep == 0;
  // A block owns every kParts-th row. Rows of sums are kept apart, so that threads store them to different banks.
  static constexpr int kOwnRows = ceilDiv(kRows, kParts), kSumsStride = kN + 4;
  // Behind the exchange: 8 columns a thread and row, in vectors of V. Vectors of neighbouring threads are neighbours.
  static constexpr int kRowThreads = kN / 8, kRowsAtOnce = kConsumers / kRowThreads;
  static constexpr int kRowTurns = ceilDiv(kOwnRows, kRowsAtOnce);
  static constexpr int V = widestVector(Config::kCols, 8), kVectors = 8 / V;
  // Whether a thread has one vector in all, and room for its words in the inboxes of other ranks.
  static constexpr bool kVectorsAreOnce = kTurns == 1 && kRowTurns == 1 && kVectors == 1 && kConsumers <= kInboxThreads;

  static_assert(sizeof(T) == 2, "bf16 or f16");
  static_assert(kRows == 8 || kRows == 16 || kRows == 32 || kRows == 64, "rows of a block");
  static_assert(kN % 32 == 0 && kN <= 256, "columns are permuted within 32, an instruction has 256");
  static_assert(kParts >= 1 && kParts <= 8 && kGroups >= 1 && kGroups <= 4, "a legal cluster and block");
  static_assert(kRanges <= kSteps, "every range has a step");
  static_assert(kStages >= 1 && kStages <= kMostSteps, "a stage holds a step of its range");
  static_assert(kTurns == 1 || (kTurns > 1 && kRanges == 1), "a block of several tiles has their whole depth");
  static_assert(kRowStages == kStages || kRowStages == kMostSteps, "rows come with the weight, or all at once");
};

/// The stamp of the launch, for epilogues that share operands of rows by mail; and a barrier for the loads of a row
/// from which a warp computes them.
template <bool kExists> struct WgmmaRowsMail {};
template <> struct WgmmaRowsMail<true> {
  MailStamp stamp;
  SharedBarrier asked;
};

template <class Config, class T> struct WgmmaRowsStorage {
  using Shape = WgmmaRowsShape<Config, T>;
  // An instruction with rows as its left operand reads 64 of them: with fewer in memory, it reads on into the memory
  // behind, which is b's.
  alignas(kWarpgroupTileAlignment) u8 a[Shape::kGroups][Shape::kRowStages][Shape::kRows * Shape::kRowBytes];
  alignas(kWarpgroupTileAlignment) u8 b[Shape::kGroups][Shape::kStages][Shape::kBytesB];
  alignas(16) float sums[Shape::kRanges][Shape::kOwnRows][Shape::kSumsStride];
  SharedBarrier rowsFull[Shape::kGroups], full[Shape::kGroups][Shape::kStages], empty[Shape::kGroups][Shape::kStages];
  alignas(16) u8 ofRows[Shape::kOwnRows][16]; // what the epilogue reads of each own row
  SharedBarrier complete, taken, loaded;
  WgmmaRowsMail<Shape::kMails> mail;

  static_assert(Shape::kRows == 8 || sizeof(b) >= (64 - Shape::kRows) * Shape::kRowBytes, "the block's memory");
};

template <class Config, class T>
constexpr SharedBytes kWgmmaRowsShared = {0, max(i64(sizeof(WgmmaRowsStorage<Config, T>)), i64(Config::kShared))};

} // namespace kiln
