//===- wgmma_tiled.cuh - matrix product in the tensor cores of Hopper ------------===//
//
// out[rows, cols] = A[rows, depth] · weight[cols, depth]^T, elements of bf16 or f16, sums in float; sm_90a only. The
// epilogue receives the sums, applies the ops that follow the product, and stores the results.
//
// Method: warp specialisation, as in CUTLASS's persistent kernels. A block has a producer, one thread
// (wgmma_copies.cuh), and teams of consumer warpgroups (wgmma_consumer.cuh). The producer copies steps of both
// operands, 128 bytes of each row, into a ring of kStages stages (TMA). A team multiplies a kTileM × kTileN tile of the
// output, each of its kConsumers warpgroups a share of the rows. Blocks stay on their multiprocessor and take one tile
// after the other. With two teams or more the tiles go to the teams in turn, so that the tensor cores multiply one
// team's tile while another team is in its epilogue.
//
// Hand-over: the producer fills a stage when its consumers have arrived at `empty`; its bytes arrive at `full`. Teams
// share the ring, and a wait for `full` cannot tell the use of a stage that a team waits for from an earlier use. So a
// team starts when the team before it has arrived at `turn`, that is, has seen all its stages full.
//
// Which thread holds what: a product gives a thread columns 2p and 2p + 1 of each 8 columns, p = lane % 4. Rows of the
// weight may be any columns, though. The weight's map permutes them: of each group of g = 32 columns, column
// g/4 p + 2j + e becomes row 8j + 2p + e of the stage, so that a thread ends up with g/4 neighbouring columns, a vector
// for the epilogue. If 32 does not divide kTileN, g is 16, or 8.
//
// Maps: of A a tensor of rank 2, extents [depth, rows], box [64, min(kTileM / kClusterN, rows rounded up to a multiple
// of 8)]: rows past the end take as long to copy as others. Of the weight one of rank 5, extents
// [depth, 2, 4, g/8, cols / g], strides in rows 1, g/4, 2 and g, box [64, 2, 4, g/8, kTileN / kClusterM / g]. The
// weight's rows are a multiple of g.
//
// Launch: grid of as many blocks as there are multiprocessors or tiles, whichever is less; block
// 128 · (1 + kTeams · kConsumers). Tiles are taken in groups of 16 along M, so that the blocks that run at a time share
// operands in L2. With clusters, of kClusterM · kClusterN · kParts blocks, the grid has whole ones.
//
// Clusters (wgmma_cluster.cuh): kClusterM × kClusterN tiles beside each other are multiplied at the same time, by
// blocks that read each operand once for all of them: L2 gives a multiprocessor only so many bytes, and with small
// tiles that is what takes the time. For few rows, kParts blocks have one tile together, each a part of the depth, so
// that few tiles occupy many multiprocessors; wgmma_parts.cuh adds their sums. Then a cluster has one round of tiles
// only, and the grid as many clusters as there are.
//
// Ranges: the sums of a tile are added in kRanges · kParts ranges of the depth, those of a range one after the other,
// then the ranges in order. A tile without parts that has so many ranges gives a row the bits that one with so many
// parts gives it. It needs registers for a second set of sums; the first products of the second range follow those of
// the first without a pause, further ranges wait until their set is free.
//
// Shared memory, all dynamic: kStages · (kTileM + kTileN) · 128 bytes, the barriers, and with parts
// (1 - 1 / kParts) · kTileM · kTileN · 4 bytes for sums. With kMails, kTeams · (8 · kTileM + 16) + 32 bytes,
// and with kReadsRows and one team 6 rows of the left operand, unless warps hold rows in registers (kHeldRows); or
// kShared bytes, if these are more.
//
// Registers: a consumer's sums take kTileM / kConsumers · kTileN / 128, twice that with ranges. The producer gives
// registers to the consumers.
//
// Operands of rows that are computed, like statistics: with kMails, three warps beside the producer compute them for
// all blocks (wgmma_mail.cuh, row_mail.cuh), and leave those of the block's tiles in shared memory. From rows in
// memory, teams behind the first compute them, if there are any.
//
// Edges: rows and columns past the end are zero in the stages, or what was there before. They are dropped before the
// epilogue. So are rows of the tile before, where the last one begins earlier (product_boxes.cuh).
//
// The weight is read before waitForDependencies(): another kernel must not write it.
//
// Config (all constants):
//   kCols, kDepth       extents
//   kTileM              a multiple of 64 · kConsumers, up to 256
//   kTileN              a multiple of 8, up to 256; not 16 times an odd number if the epilogue hands
//                       out statistics
//   kStages             2 or more
//   kConsumers, kTeams  warpgroups of a team, and teams; one team with parts
//   kClusterM, kClusterN, kParts  the blocks of a cluster, powers of two, up to 8 in all; kTileM / kClusterN is a
//                       multiple of 8, kTileN / kClusterM of g
//   kRanges             1 with parts
//   kShared             bytes that the block takes at least, so that no more blocks share a multiprocessor than should
//   kMails, kReadsRows  optional: the epilogue shares operands of rows by mail
//
// Epilogue: as in mma_tiled.cuh, also with operands of rows (epilogue.cuh).
//
//===----------------------------------------------------------------------===//
#pragma once

#include "device/barrier.cuh"
#include "device/base.cuh"
#include "device/block.cuh"
#include "device/cluster.cuh"
#include "device/grid.cuh"
#include "device/index.cuh"
#include "device/shared.cuh"
#include "device/tensor_copy.cuh"
#include "device/vec.cuh"
#include "device/warp.cuh"
#include "gemm/tile_order.cuh"
#include "gemm/wgmma_consumer.cuh"
#include "gemm/wgmma_copies.cuh"
#include "gemm/wgmma_epilogue.cuh"
#include "gemm/wgmma_mail.cuh"
#include "gemm/wgmma_parts.cuh"
#include "gemm/wgmma_shape.cuh"

namespace kiln {

/// The work of one thread of a block, in each of its roles.
template <class Config, class T, class Order = OrderOfClusters<typename WgmmaTiledShape<Config, T>::Cluster>>
struct WgmmaTiled : WgmmaConsumer<Config, T, Order> {
  using Consumer = WgmmaConsumer<Config, T, Order>;
  using Consumer::a, Consumer::block, Consumer::finishRange, Consumer::rows, Consumer::shared, Consumer::weight;
  using Consumer::kGroups, Consumer::kThreadRows, Consumer::kVectors, Consumer::V;
  using typename Consumer::Cluster, typename Consumer::RangeSums, typename Consumer::Shape, typename Consumer::Sums,
      typename Consumer::ThreadPlace;
  static constexpr bool kMayBeginEarlier = WgmmaBlock<Config, T, Order>::kMayBeginEarlier;

  KILN_DEVICE void initBarriers() const {
    for (int i = 0; i < Shape::kStages; ++i) {
      initBarrier(shared.full[i], 1);
      initBarrier(shared.empty[i], 4 * Shape::kConsumers * Cluster::kCopiers); // warps
    }
    for (int i = 0; i < Shape::kTeams; ++i)
      initBarrier(shared.turn[i], 4 * Shape::kConsumers);
    if constexpr (Shape::kParts > 1)
      initBarrier(shared.ofParts.complete, 1);
    if constexpr (Shape::kMails) {
      initBarrier(shared.mail.stamp.known, 1);
      initBarrier(shared.mail.asked, kMailWarps);
      for (int i = 0; i < Shape::kTeams; ++i) {
        initBarrier(shared.mail.loaded[i], kMailWarps * int(kWarpSize));
        initBarrier(shared.mail.taken[i], Shape::kConsumers * int(kWarpgroupSize));
      }
    }
    fenceBarriers();
    if constexpr (Shape::kParts > 1)
      arriveExpecting(shared.ofParts.complete, u32(sizeof(shared.ofParts.sums)));
  }

  /// The work of the producer.
  KILN_DEVICE WgmmaCopies<Config, T, Order> copies() const { return {shared, a, weight, block}; }

  //===--- for the epilogue of a consumer

  /// The thread's sums in row i of a group, or so many of them.
  template <int kWidth>
  KILN_DEVICE static Vec<float, kWidth> product(const RangeSums &sums, int group, int i, int vector = 0) {
    Vec<float, kWidth> values;
#pragma unroll
    for (int v = 0; v < kWidth; ++v) {
      const int element = vector * kWidth + v;
      values[v] = sums[i / 2].tiles[group * (Shape::kGroupCols / 8) + element / 2].values[i % 2 * 2 + element % 2];
    }
    return values;
  }

  /// A coordinate from which addresses are computed where they are used.
  KILN_DEVICE static int tightly(int coordinate) {
    return Consumer::kIsTight ? int(renewed(u32(coordinate))) : coordinate;
  }

  /// Waits for what the epilogue reads of the rows of the block's i-th tile; and lets its place in shared memory have
  /// those of the team's next tile.
  KILN_DEVICE void waitForMail(int i) const {
    waitBarrier(shared.mail.loaded[i % Shape::kTeams], u32(i / Shape::kTeams) & 1);
  }
  KILN_DEVICE void releaseMail(int i) const { arrive(shared.mail.taken[i % Shape::kTeams]); }

  /// What the epilogue reads for a vector, of the nearest own row and columns if it lies past an end, or if another
  /// block may be writing its row.
  template <bool kWhole, class Epilogue>
  KILN_DEVICE auto operandsAt(const Epilogue &epilogue, ThreadPlace at, int row, int col) const {
    return epilogue.template operands<V>(kWhole ? row : min(kMayBeginEarlier ? max(row, at.own) : row, rows - 1),
                                         kWhole || Shape::kColsAreExact ? col : min(col, Config::kCols - V));
  }
  /// Whether the tile stores a row's column.
  template <bool kWhole> KILN_DEVICE bool exists(ThreadPlace at, int row, int col) const {
    return kWhole ||
           ((!kMayBeginEarlier || row >= at.own) && row < rows && (Shape::kColsAreExact || col < Config::kCols));
  }
  /// Whether no row or column of the tile lies past an end, or would if it did not begin earlier. Such tiles are stored
  /// under no condition; so what the epilogue computes of a row, like its batch and token, is computed once for all of
  /// a thread's columns.
  KILN_DEVICE bool isWhole(TilePlace place) const {
    return (place.m + 1) * Shape::kM <= rows && (Shape::kColsAreExact || (place.n + 1) * Shape::kN <= Config::kCols);
  }
};

/// No block may copy to others, send them sums or arrive there before they have initialised their barriers. They wait
/// for each other at once if they copy, else beside the first copies of the weight.
template <class Cluster> KILN_DEVICE void startCluster() {
  if constexpr (Cluster::kBlocks > 1)
    arriveClusterAtStart();
  if constexpr (Cluster::kCopiesToOthers)
    waitCluster();
}
template <class Cluster> KILN_DEVICE void waitForOtherParts() {
  if constexpr (Cluster::kBlocks > 1 && !Cluster::kCopiesToOthers) {
    syncWarp();
    waitCluster();
  }
}

/// Runs the roles of a block; `end` as in WgmmaTiled::consume.
template <class Config, class T, class Order, class End>
KILN_DEVICE void runWgmmaTiled(const WgmmaTiled<Config, T, Order> &thread, End &&end) {
  using Shape = WgmmaTiledShape<Config, T>;
  using Cluster = typename Shape::Cluster;
  allowDependents();
  if (threadIndex() == 0) {
    prefetchMap(thread.a);
    prefetchMap(thread.weight);
    thread.initBarriers();
  }
  syncThreads();
  startCluster<Cluster>();
  if (warpgroupIndex() == 0) {
    if constexpr (Shape::kMovesRegisters)
      giveRegisters<Shape::kProducerRegisters>();
    if (threadIndex() == 0)
      thread.copies().copyFirstOfWeight();
    waitForOtherParts<Cluster>();
    if (threadIndex() == 0)
      thread.copies().copyRest();
    else if (warpIndex() > 0)
      mailRows(thread, end.epilogue, int(warpIndex()) - 1);
  } else {
    if constexpr (Shape::kMovesRegisters)
      takeRegisters<Shape::kConsumerRegisters>();
    waitForOtherParts<Cluster>();
    waitForDependencies();
    if constexpr (Shape::kTeams > 1)
      if (int(warpgroupIndex()) > Shape::kConsumers)
        end.beforeFirstTurn(); // while the first team's products run
    thread.consume(end);
  }
}

/// The kernel's body.
template <class Config, class T, class Epilogue>
KILN_DEVICE void wgmmaTiled(int rows, const TensorMap &a, const TensorMap &weight, const Epilogue &epilogue) {
  using Tiled = WgmmaTiled<Config, T>;
  const Tiled thread{dynamicShared<WgmmaTiledStorage<Config, T>>(), a, weight, {rows}};
  if constexpr (Config::kParts > 1)
    runWgmmaTiled(thread, WgmmaPartsEnd<Tiled, Epilogue>{thread, epilogue});
  else
    runWgmmaTiled(thread, WgmmaTiledEnd<Tiled, Epilogue>{thread, epilogue});
}

} // namespace kiln
