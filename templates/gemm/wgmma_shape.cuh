//===- wgmma_shape.cuh - the shape of a block of wgmma_tiled.cuh, and its shared memory -------===//
#pragma once

#include "device/barrier.cuh"
#include "device/base.cuh"
#include "device/index.cuh"
#include "device/shared.cuh"
#include "device/vec.cuh"
#include "gemm/wgmma_cluster.cuh"
#include "row_mail.cuh"
#include "shape.cuh"

namespace kiln {

/// Warps beside the producer that compute operands of rows for all blocks and get those of the block's tiles.
constexpr int kMailWarps = 3;
constexpr int kMailRowsAtOnce = 2; ///< rows on their way to the shared memory of one of them

/// Constants that follow from a Config for elements of type T.
template <class Config, class T> struct WgmmaTiledShape {
  static constexpr int kM = Config::kTileM, kN = Config::kTileN, kStages = Config::kStages;
  static constexpr int kConsumers = Config::kConsumers, kTeams = Config::kTeams;
  static constexpr int kThreads = int(kWarpgroupSize) * (1 + kTeams * kConsumers);
  static constexpr int kConsumerM = kM / kConsumers, kRowTiles = kConsumerM / 64; // a warpgroup's part, by 64 rows
  static constexpr int kStep = int(kSwizzledRowBytes / sizeof(T));                // of the depth
  static constexpr int kSteps = ceilDiv(Config::kDepth, kStep);                   // of all parts
  static constexpr int kInstructions = 4; // of a step: 32 bytes each, the depth of an instruction
  static constexpr u32 kBytesA = kM * kSwizzledRowBytes, kBytesB = kN * kSwizzledRowBytes;
  static constexpr int kTilesN = ceilDiv(Config::kCols, kN);
  /// Columns that the weight's map permutes, so that a thread has kThreadCols neighbouring ones of them.
  static constexpr int kGroupCols = kN % 32 == 0 ? 32 : kN % 16 == 0 ? 16 : 8, kThreadCols = kGroupCols / 4;
  static constexpr int kOutputVec = widestVector(Config::kCols, kThreadCols);
  /// Registers of a thread in each role: together what a multiprocessor has. With one consumer, every thread can have
  /// as many as an instruction can name. What two consumers with few sums do not need, the producer's warpgroup gets;
  /// warps in it that compute operands of rows take more.
  static constexpr bool kMovesRegisters = kThreads > 256, kMails = mailsRows<Config>(0);
  static constexpr int kSums = kConsumerM * kN / int(kWarpgroupSize) * min(Config::kRanges, 2); // of a thread
  static constexpr bool kHasFewSums = kThreads == 384 && kTeams == 1 && kSums <= (kMails ? 128 : 96);
  static constexpr int kProducerRegisters = kThreads > 384 ? (kMails ? 56 : 24)
                                            : kHasFewSums  ? (kMails ? 72 : 40)
                                                           : (kMails ? 40 : 24);
  static constexpr int kConsumerRegisters = kThreads > 384 ? (kMails ? 152 : 160) : (504 - kProducerRegisters) / 2;
  /// Who computes operands of rows from rows in memory: the warps beside the producer, or teams behind the first.
  static constexpr bool kMailWarpsReadRows = readsRows<Config>(0) && kTeams == 1;
  static constexpr bool kTeamsReadRows = readsRows<Config>(0) && kTeams > 1;
  /// Rows that one of these warps holds in registers: the one that it computes, and the next where there is room. If
  /// registers are moved, that is beside few sums only, two rows of up to 768 elements or one of up to 1024.
  static constexpr int kHeldRows = !kMailWarpsReadRows                     ? 0
                                   : !kMovesRegisters                      ? 2
                                   : !kHasFewSums || Config::kDepth > 1024 ? 0
                                   : Config::kDepth > 768                  ? 1
                                                                           : 2;
  /// Whether they hold rows, or have them copied to shared memory.
  static constexpr bool kHoldsRows = kHeldRows > 0;
  static constexpr bool kCopiesRows = kMailWarpsReadRows && !kHoldsRows;
  /// Whether the copies of so many rows wait for the loads of those that warps hold: where no warp has a second one.
  KILN_DEVICE static bool asksForRowsFirst(int rows) { return kHoldsRows && rows <= kMailWarps * int(gridBlocksX()); }

  // The cluster, and the share of an operand's tile that a block copies.
  using Cluster = WgmmaCluster<Config::kClusterM, Config::kClusterN, Config::kParts>;
  static constexpr int kParts = Cluster::kParts, kMostSteps = ceilDiv(kSteps, kParts); // of a part
  static constexpr int kRanges = Config::kRanges, kAllRanges = kParts * kRanges;
  static constexpr int kShareM = kM / Cluster::kBlocksN, kShareN = kN / Cluster::kBlocksM;
  /// Whether every tile of a cluster has all of its columns.
  static constexpr bool kColsAreExact = Config::kCols % (kN * Cluster::kBlocksN) == 0;

  // Sums that a thread has: its columns of each group in two rows of each 64. With parts, each block finishes kOwn of
  // these vectors.
  static constexpr int kGroups = kN / kGroupCols, kThreadRows = 2 * kRowTiles, kOwn = kGroups * kThreadRows / kParts;

  static_assert(sizeof(T) == 2, "bf16 or f16");
  static_assert(kM % (64 * kConsumers) == 0 && kM <= 256, "warpgroups take whole instructions, a box has 256 rows");
  static_assert(kN % 8 == 0 && kN <= 256, "an instruction has a multiple of 8 columns up to 256");
  static_assert(kThreads <= 512, "a consumer has the registers for its sums");
  static_assert(kStages >= 2, "one step is multiplied while another arrives");
  static_assert(kShareM % 8 == 0 && kShareN % kGroupCols == 0, "shares are whole groups of rows");
  static_assert(kAllRanges <= kSteps, "every part and range has a step");
  static_assert(kParts == 1 || kRanges == 1, "ranges are added in order, which parts of several would not be");
  static_assert(kParts == 1 || kTeams == 1, "with parts, a block has one tile");
  static_assert(kOwn * kParts == kGroups * kThreadRows && kOwn > 0 && (kOwn % kGroups == 0 || kGroups % kOwn == 0),
                "blocks finish equal numbers of rows, or of groups of columns of a row");
};

/// What a block gets of the sums of other parts: of each of these, its own vectors of each thread in pieces of up to 16
/// bytes.
template <class Shape, bool kExists = (Shape::kParts > 1)> struct WgmmaPartSums {};
template <class Shape> struct WgmmaPartSums<Shape, true> {
  static constexpr int kThreads = Shape::kConsumers * int(kWarpgroupSize), kPiece = min(Shape::kThreadCols, 4);
  alignas(16) Vec<float, kPiece> sums[Shape::kParts - 1][Shape::kOwn][Shape::kThreadCols / kPiece][kThreads];
  SharedBarrier complete;
};

/// Operands of rows of each team's tile, and what the warps that get them need.
template <class Config, class T, bool kExists = mailsRows<Config>(0)> struct WgmmaMailStorage {};
template <class Config, class T> struct WgmmaMailStorage<Config, T, true> {
  using Shape = WgmmaTiledShape<Config, T>;
  /// Rows from which operands are computed, on their way to a warp.
  alignas(16) T rows[Shape::kCopiesRows ? kMailWarps : 1][kMailRowsAtOnce]
                    [Shape::kCopiesRows ? Config::kDepth : 8 / kMailRowsAtOnce];
  alignas(8) Vec<float, 2> ofRows[Shape::kTeams][Shape::kM];
  SharedBarrier loaded[Shape::kTeams], taken[Shape::kTeams];
  MailStamp stamp;
  SharedBarrier asked; ///< the loads of held rows are on their way
};

template <class Config, class T> struct WgmmaTiledStorage {
  using Shape = WgmmaTiledShape<Config, T>;
  alignas(kWarpgroupTileAlignment) u8 a[Shape::kStages][Shape::kBytesA];
  alignas(kWarpgroupTileAlignment) u8 b[Shape::kStages][Shape::kBytesB];
  SharedBarrier full[Shape::kStages], empty[Shape::kStages], turn[Shape::kTeams];
  WgmmaPartSums<Shape> ofParts;
  WgmmaMailStorage<Config, T> mail;
};

template <class Config, class T>
constexpr SharedBytes kWgmmaTiledShared = {0, max(i64(sizeof(WgmmaTiledStorage<Config, T>)), i64(Config::kShared))};

} // namespace kiln
