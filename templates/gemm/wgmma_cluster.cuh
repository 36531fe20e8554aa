//===- wgmma_cluster.cuh - how the blocks of a cluster share products ---------------===//
//
// The blocks of a cluster have neighbouring tiles of a product: kBlocksM along the rows, kBlocksN along the columns,
// and kParts blocks for each tile, each of which has a part of the depth. Blocks beside each other along the columns
// read the same rows of the left operand, blocks along the rows the same rows of the weight: each copies a share of
// these, for all of them (cluster_copy.cuh).
//
//===----------------------------------------------------------------------===//
#pragma once

#include "device/base.cuh"
#include "device/cluster.cuh"

namespace kiln {

template <int kM, int kN, int kDepthParts> struct WgmmaCluster {
  static constexpr int kBlocksM = kM, kBlocksN = kN, kParts = kDepthParts, kBlocks = kM * kN * kParts;
  /// Whether blocks copy for each other, and the number of those that copy to one block, itself among them.
  static constexpr bool kCopiesToOthers = kM * kN > 1, kIsOfBoth = kM > 1 && kN > 1;
  static constexpr int kCopiers = kM + kN - 1;
  static_assert(kBlocks >= 1 && kBlocks <= 8, "a legal cluster");

  /// The place of a block: its part, and its tile among the cluster's.
  int part, m, n;

  KILN_DEVICE static WgmmaCluster ofThisBlock() {
    if constexpr (kBlocks == 1)
      return {0, 0, 0};
    const int rank = int(clusterRank());
    return {rank % kParts, rank / kParts % kM, rank / (kParts * kM)};
  }

  KILN_DEVICE static u32 rankOf(int part, int m, int n) { return u32(part + kParts * (m + kM * n)); }
  KILN_DEVICE u32 rankOfPart(int other) const { return rankOf(other, m, n); }

  /// The blocks with the same part and rows, or columns, as bits.
  KILN_DEVICE u32 blocksOfRows() const {
    u32 blocks = 0;
#pragma unroll
    for (int other = 0; other < kN; ++other)
      blocks |= 1u << rankOf(0, 0, other);
    return blocks << rankOf(part, m, 0);
  }
  KILN_DEVICE u32 blocksOfCols() const {
    u32 blocks = 0;
#pragma unroll
    for (int other = 0; other < kM; ++other)
      blocks |= 1u << rankOf(0, other, 0);
    return blocks << rankOf(part, 0, n);
  }

  /// The rank of copier i of kCopiers: a block that copies to this one. This one copies to the same blocks.
  KILN_DEVICE u32 copier(int i) const {
    const int other = i - kN;
    return i < kN ? rankOf(part, m, i) : rankOf(part, other + (other >= m), n);
  }
};

} // namespace kiln
