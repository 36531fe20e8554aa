//===- shape.cuh - who computes what in a kernel that decodes all layers -------------===//
//
// The blocks of decode/layers.cuh form clusters of kBlocks. A cluster owns some of the heads: their columns of the
// product for queries, keys and values, their attention, and the part of the projection's depth that they are. And it
// owns some of the MLP's hidden channels: their columns of the first product, their part of the second one's depth. In
// the products whose depth a cluster owns, its blocks share the columns. Columns are dealt out in groups of 8.
//
// All weights of a block come in units, one copy each, of two kinds (UnitKind):
//   wide     a group of columns of the whole depth: kDim / 64 parts
//   narrow   64 of the depth, the block's columns: kMostOwn parts
// A part is 8 columns of 64 of the depth: part i of a wide unit is depth 64i … 64i + 63, part i of a narrow one columns
// 8i … 8i + 7. Each warp that multiplies has neighbouring parts of each unit, as many as others: kWarpParts at most. In
// clusters of 8 both kinds have as many parts; in those of 6, blocks have more columns, some of them one group more.
//
// A head takes 24 groups of a cluster's wide products and a narrow unit of each block, 64 hidden channels take 8 and
// one. Clusters share heads first, then hidden channels: all have as equal a number of units as can be, but none has
// more hidden channels than it must, since all wait for each other behind the MLP.
//
// Of a model that several ranks share (decode/ranks.cuh), all of this is about the share of one rank. All have as many
// heads and channels: where they do not divide, the last ones are zeros.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "device/barrier.cuh"
#include "device/base.cuh"
#include "device/cluster.cuh"
#include "device/index.cuh"
#include "device/numeric.cuh"
#include "device/shared.cuh"
#include "device/vec.cuh"
#include "device/warp.cuh"

namespace kiln {

enum class UnitKind { Wide, Narrow };

/// The heads and hidden channels of a cluster. Hidden channels count in groups of 64.
struct DecodeShare {
  int firstHead, heads, firstHidden, hiddens;
};

/// Constants that follow from a Config for elements of type T.
template <class Config, class T> struct DecodeShape {
  static constexpr int kBlocks = Config::kBlocks; // of a cluster
  static constexpr int kClusters = Config::kClusters, kAllBlocks = kBlocks * kClusters, kRows = Config::kRows,
                       kStages = Config::kStages;
  static constexpr int kInFlight = min(Config::kInFlight, kStages),
                       kLogitsInFlight = min(Config::kLogitsInFlight, kStages);
  static constexpr int kDim = Config::kDim, kHeads = Config::kHeads, kHiddens = Config::kHidden / 64;
  static constexpr int kHeadSize = 64, kUnitDepth = 64, kUnitCols = 8;
  static constexpr int kRowGroups = kDim / kUnitCols, kMostOwn = ceilDiv(kRowGroups, kBlocks); // of a block
  static constexpr int kWarps = ceilDiv(max(kDim / kUnitDepth, kMostOwn), Config::kWarpParts);
  static constexpr int kConsumers = kWarps * int(kWarpSize), kThreads = kConsumers + int(kWarpSize);
  static constexpr u32 kPartBytes = kUnitCols * kSwizzledRowBytes;
  static constexpr u32 kStageBytes = u32(max(kDim / kUnitDepth, kMostOwn)) * kPartBytes;

  /// Parts of a unit, and of a warp.
  template <UnitKind kKind> static constexpr int kParts = kKind == UnitKind::Wide ? kDim / kUnitDepth : kMostOwn;
  template <UnitKind kKind> static constexpr int kWarpParts = ceilDiv(kParts<kKind>, kWarps);

  KILN_DEVICE static constexpr DecodeShare share(int cluster) {
    constexpr int kHalves = 2 * kHeads + kHiddens; // each is a narrow unit and as much of wide ones
    constexpr int kMore = kHeads % kClusters, kOthers = kClusters - kMore; // clusters with one more head, and others
    constexpr int kOfMore = firstOf(kHalves, kClusters, kMore) - 2 * firstOf(kHeads, kClusters, kMore);
    constexpr int kOfOthers = min(kHiddens - kOfMore, kOthers * ceilDiv(kHiddens, kClusters));
    const int firstHead = firstOf(kHeads, kClusters, cluster), heads = partOf(kHeads, kClusters, cluster);
    if (cluster < kMore)
      return {firstHead, heads, firstOf(kHiddens - kOfOthers, kMore, cluster),
              partOf(kHiddens - kOfOthers, kMore, cluster)};
    return {firstHead, heads, kHiddens - kOfOthers + firstOf(kOfOthers, kOthers, cluster - kMore),
            partOf(kOfOthers, kOthers, cluster - kMore)};
  }
  /// What one of `sharers` has of `count` things, of which the first sharers have one more; and where that begins.
  KILN_DEVICE static constexpr int partOf(int count, int sharers, int which) {
    return count / sharers + (which < count % sharers ? 1 : 0);
  }
  KILN_DEVICE static constexpr int firstOf(int count, int sharers, int which) {
    return which * (count / sharers) + min(which, count % sharers);
  }
  KILN_DEVICE static constexpr int mostHiddens() {
    int most = 0;
    for (int cluster = 0; cluster < kClusters; ++cluster)
      most = max(most, share(cluster).hiddens);
    return most;
  }
  KILN_DEVICE static constexpr int fewestHiddens() {
    int fewest = kHiddens;
    for (int cluster = 0; cluster < kClusters; ++cluster)
      fewest = min(fewest, share(cluster).hiddens);
    return fewest;
  }
  static constexpr int kMostHeads = ceilDiv(kHeads, kClusters), kFewestHeads = max(kHeads / kClusters, 1); // if any
  static constexpr int kMostHiddens = mostHiddens(), kFewestHiddens = fewestHiddens();
  static constexpr int kHeadClusters = min(kHeads, kClusters); // the first ones; the others have no heads
  static constexpr int kQueries = kRows * kMostHeads;
  // Units of wide products of a block.
  static constexpr int kPieceGroups = 64 / kUnitCols;
  static constexpr int kMostQkv = ceilDiv(kPieceGroups * 3 * kMostHeads, kBlocks),
                       kFewestQkv = kPieceGroups * 3 * kFewestHeads / kBlocks;
  static constexpr int kMostFc = ceilDiv(kPieceGroups * kMostHiddens, kBlocks),
                       kFewestFc = kPieceGroups * kFewestHiddens / kBlocks;
  static constexpr int kDirect = min(Config::kDirect, kWarps); // slots of a query that blocks do not combine

  // The panel holds the sums of all warps for some wide units: of a layer, or of two batches of the last product. The
  // two wide products of a layer have places of their own, so that all warps of the block have met between the last
  // read of a sum and the next write.
  static constexpr int kBatch = 4, kPanelUnits = max(kMostQkv + kMostFc, 2 * kBatch);
  // Rows of the left operands are kept apart, so that lanes read them from different banks.
  static constexpr int kDimStride = kDim + 8, kAttendedStride = kMostHeads * kHeadSize + 8,
                       kHiddenStride = kMostHiddens * 64 + 8;

  static_assert(sizeof(T) == 2, "bf16 or f16");
  static_assert(kDim % 64 == 0 && Config::kHidden % 64 == 0, "whole units");
  static_assert(kWarps < 32 && kMostOwn * kUnitCols <= 256, "a legal block, and a legal box");
  static_assert(kBlocks >= 1 && kBlocks <= 8, "a quad of a warp for each block");
  static_assert(kRows == 1 || kRows == 2 || kRows == 4 || kRows == 8, "rows of an instruction");
  // Blocks of a cluster wait for each other's hidden channels before they send again what they have sent before.
  static_assert(kFewestHiddens > 0, "every cluster has hidden channels");
};

/// A part of the attention's output for a query: of the keys of a warp, or of a block.
template <int kHeadSize> struct DecodePart {
  alignas(16) float values[kHeadSize];
};

/// What stays from token to token: the ring of weights, barriers, and what is known of the rows.
template <class Config, class T> struct DecodeRing {
  using Shape = DecodeShape<Config, T>;
  static constexpr int kRows = Shape::kRows;

  alignas(kWarpgroupTileAlignment) u8 ring[Shape::kStages][Shape::kStageBytes];
  SharedBarrier full[Shape::kStages], empty[Shape::kStages];
  SharedBarrier met;                                   // the warps of the block
  SharedBarrier haveX, haveQkv, haveParts, haveHidden; // the cluster's bytes are there
  SharedBarrier chosen, cached;                        // the next tokens are there; keys and values are in the cache
  int tokens[kRows], newest[kRows];                    // the new token of each row, and its position
  u32 partBytes;                                       // of the attention's parts that a block gets in a layer
  bool hasSlots;                                       // whether blocks combine slots of some row
  // Of decode/generate.cuh: how many blocks will have arrived, and what is known of rows and their sampling.
  u32 arrivals;
  bool isFinished[kRows], isGreedy;
};

/// And what phases leave for others. Between tokens nothing of it is needed, and sampling has its memory.
template <class Config, class T> struct DecodeStorage : DecodeRing<Config, T> {
  using Shape = DecodeShape<Config, T>;
  static constexpr int kRows = Shape::kRows, kQueries = Shape::kQueries;

  // The residual stream, and of each warp's columns the sum and the sum of the squares, for each wide product of a
  // layer.
  alignas(16) T x[kRows][Shape::kDimStride];
  alignas(16) Vec<float, 2> moments[2][Shape::kWarps][kRows];
  // Sums of wide products by warps; behind those of the rows the sums of the weights.
  alignas(16) float panel[Shape::kWarps][Shape::kPanelUnits][kRows + 1][Shape::kUnitCols];
  alignas(16) T qkv[kQueries][3][Shape::kHeadSize];
  // Parts of the attention, and their maximum and sum of weights: of this block's slots, of the cluster's blocks.
  DecodePart<Shape::kHeadSize> slotParts[Shape::kWarps][kQueries], parts[Shape::kBlocks * Shape::kDirect][kQueries];
  alignas(16) Vec<float, 2> slotTops[Shape::kWarps][kQueries], tops[Shape::kBlocks * Shape::kDirect][kQueries];
  alignas(16) T attended[kRows][Shape::kAttendedStride];
  alignas(16) T hidden[kRows][Shape::kHiddenStride];
};

/// A thread, and what its block works on.
template <class Config, class T> struct DecodeThread {
  using Shape = DecodeShape<Config, T>;

  DecodeStorage<Config, T> &shared;
  const int rows, cluster, rank; ///< rank: of the block in the cluster
  const DecodeShare share;       ///< of the cluster

  KILN_DEVICE DecodeThread(int rows)
      : shared(dynamicShared<DecodeStorage<Config, T>>()), rows(Shape::kRows == 1 ? 1 : rows),
        cluster(int(blockIndexX()) / Shape::kBlocks), rank(int(clusterRank())), share(Shape::share(cluster)),
        own(shuffle(threadIndex(), laneIndex())) {} // otherwise ptxas reads it again at each use, which takes longer

  /// Called at the start of a phase: addresses are computed in the phase that needs them. Those of all phases together
  /// do not fit into the registers.
  KILN_DEVICE void renewIndex() { own = renewed(own); }

  KILN_DEVICE int index() const { return int(own); }
  KILN_DEVICE int warp() const { return int(own / kWarpSize); }
  KILN_DEVICE int lane() const { return int(own % kWarpSize); }
  /// Of the operands and sums of products, a lane has row quad() and columns 2 place() and the next.
  KILN_DEVICE int quad() const { return int(own % kWarpSize / 4); }
  KILN_DEVICE int place() const { return int(own % 4); }

  // The units of the block, in the order in which it needs them: of a layer's products, then of the logits. In wide
  // products a piece is 64 columns, a head's query for example.
  KILN_DEVICE int qkvUnits() const { return unitsOf(3 * share.heads); }
  KILN_DEVICE int fcUnits() const { return unitsOf(share.hiddens); }
  KILN_DEVICE int unitsOfLayer() const { return share.heads + qkvUnits() + (share.hiddens + fcUnits()); }
  KILN_DEVICE int logitUnits() const {
    return (Config::kCols / 8 + Shape::kAllBlocks - 1 - int(blockIndexX())) / Shape::kAllBlocks;
  }

  /// Which of the cluster's pieces a unit of a wide product is of, and its first column there.
  struct Place {
    int piece, col;
  };
  KILN_DEVICE Place placeOf(int unit) const {
    if constexpr (Shape::kBlocks == Shape::kPieceGroups)
      return {unit, rank * Shape::kUnitCols};
    const int group = unit * Shape::kBlocks + rank;
    return {group / Shape::kPieceGroups, group % Shape::kPieceGroups * Shape::kUnitCols};
  }

  // The first columns of units.
  KILN_DEVICE int columnOfHead(int unit) const {
    const Place at = placeOf(unit);
    return (at.piece % 3 * Shape::kHeads + share.firstHead + at.piece / 3) * 64 + at.col;
  }
  KILN_DEVICE int columnOfHidden(int unit) const {
    const Place at = placeOf(unit);
    return (share.firstHidden + at.piece) * 64 + at.col;
  }
  KILN_DEVICE int columnOfLogits(int unit) const { return (unit * Shape::kAllBlocks + int(blockIndexX())) * 8; }

  u32 own; ///< its index

private:
  /// Groups of columns are dealt out to the blocks.
  KILN_DEVICE int unitsOf(int pieces) const {
    if constexpr (Shape::kBlocks == Shape::kPieceGroups)
      return pieces;
    return ceilDiv(Shape::kPieceGroups * pieces - rank, Shape::kBlocks);
  }
};

} // namespace kiln
