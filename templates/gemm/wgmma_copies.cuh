//===- wgmma_copies.cuh - the producer of wgmma_tiled.cuh ---------------------------===//
//
// One thread of a block copies steps of both operands into the ring of stages. In a cluster whose blocks copy for each
// other, a block copies a share of each tile: kShareM rows of the left operand, kShareN of the weight. A block expects
// all bytes that it gets; and before it copies to a stage, the consumers of every block that gets the copy have
// released it. Shares outside the operand are not copied, unless the cluster extends along both: there a block must get
// bytes from all that copy to it, for each step. Without them it could release a stage twice before another block,
// which it does not share an operand with, has released it once.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "device/barrier.cuh"
#include "device/base.cuh"
#include "device/cluster_copy.cuh"
#include "device/grid.cuh"
#include "device/index.cuh"
#include "gemm/product_boxes.cuh"
#include "gemm/ring_place.cuh"
#include "gemm/tile_order.cuh"
#include "gemm/wgmma_shape.cuh"

namespace kiln {

/// The tiles of a block, and what it has of each.
template <class Config, class T, class Order> struct WgmmaBlock {
  using Shape = WgmmaTiledShape<Config, T>;
  using Cluster = typename Shape::Cluster;

  const int rows;
  const Cluster at = Cluster::ofThisBlock();
  const Order order = {ceilDiv(rows, Shape::kM *Cluster::kBlocksM), ceilDiv(Shape::kTilesN, Cluster::kBlocksN)};

  /// The block's i-th tile; in a cluster it may lie outside the product.
  KILN_DEVICE bool has(int i) const { return order.has(i); }
  KILN_DEVICE TilePlace place(int i) const {
    const TilePlace place = order.place(i);
    return {place.m * Cluster::kBlocksM + at.m, place.n * Cluster::kBlocksN + at.n};
  }

  /// Whether the last tile may begin at a row that the tile before has, too. Large tiles, and those that are stored
  /// element by element, have no registers for that.
  static constexpr bool kMayBeginEarlier =
      Order::kMayShareRows && !Cluster::kCopiesToOthers && Shape::kSums <= 128 && Shape::kOutputVec > 1;
  /// The first row of a tile.
  KILN_DEVICE int firstRow(int m) const {
    const int own = m * Shape::kM;
    return kMayBeginEarlier ? firstRowOfTile<Shape::kM>(own, rows) : own;
  }

  /// The steps of the block's part.
  KILN_DEVICE int firstStep() const { return firstStepOf(at.part, Shape::kParts); }
  KILN_DEVICE int steps() const { return stepsOf(at.part, Shape::kParts); }
  /// The steps of a range of the depth; a block with parts has one.
  KILN_DEVICE int stepsOfRange(int range) const {
    return stepsOf(Shape::kParts == 1 ? range : at.part, Shape::kAllRanges);
  }

  /// The shares of a tile that are copied.
  KILN_DEVICE int sharesOfA(int m) const {
    if constexpr (Cluster::kCopiesToOthers && !Cluster::kIsOfBoth)
      return max(0, min(ceilDiv(rows - m * Shape::kM, Shape::kShareM), Cluster::kBlocksN));
    else
      return Cluster::kBlocksN;
  }
  KILN_DEVICE int sharesOfB(int n) const {
    if constexpr (Cluster::kCopiesToOthers && !Cluster::kIsOfBoth && !Shape::kColsAreExact)
      return max(0, min(ceilDiv(Config::kCols - n * Shape::kN, Shape::kShareN), Cluster::kBlocksM));
    else
      return Cluster::kBlocksM;
  }
  /// The rows of the left operand's tile that are copied; and how many there are from its first one on. Where a box has
  /// fewer rows than a share, those of the next share lie behind a gap.
  KILN_DEVICE int copiedRows(int m) const { return sharesOfA(m) * boxRows<Shape::kShareM>(rows); }
  KILN_DEVICE int rowsInStage(int m) const {
    if constexpr (Cluster::kIsOfBoth && Cluster::kBlocksN > 1) {
      const int ofBox = boxRows<Shape::kShareM>(rows);
      return ofBox < Shape::kShareM ? ofBox : Shape::kM;
    } else {
      return copiedRows(m);
    }
  }

private:
  /// Of the i-th of so many pieces of the depth.
  KILN_DEVICE static int firstStepOf(int i, int pieces) { return i * Shape::kSteps / pieces; }
  KILN_DEVICE static int stepsOf(int i, int pieces) {
    return Shape::kSteps % pieces == 0 ? Shape::kSteps / pieces : firstStepOf(i + 1, pieces) - firstStepOf(i, pieces);
  }
};

/// Its default order.
template <class Cluster> using OrderOfClusters = GroupedTiles<Cluster::kBlocks, 16 / Cluster::kBlocksM>;

/// The work of the producer.
template <class Config, class T, class Order> struct WgmmaCopies {
  using Shape = WgmmaTiledShape<Config, T>;
  using Cluster = typename Shape::Cluster;
  static constexpr int kAtOnce = min(Shape::kMostSteps, Shape::kStages);

  WgmmaTiledStorage<Config, T> &shared;
  const TensorMap &a, &weight;
  const WgmmaBlock<Config, T, Order> &block;

  KILN_DEVICE void copyA(TilePlace tile, int step, u32 stage) const {
    const int depth = (block.firstStep() + step) * Shape::kStep, share = block.at.n;
    if (share >= block.sharesOfA(tile.m))
      return;
    const SharedAddress to = SharedAddress(shared.a[stage]) + u32(share * Shape::kShareM) * kSwizzledRowBytes;
    const int own = block.firstRow(tile.m) + share * Shape::kShareM,
              row = Cluster::kIsOfBoth ? min(own, block.rows - 1) : own;
    if constexpr (Cluster::kBlocksN > 1)
      copyBoxToBlocks(to, a, {depth, row}, shared.full[stage], block.at.blocksOfRows());
    else
      copyBox(to, a, {depth, row}, shared.full[stage]);
  }
  KILN_DEVICE void copyB(TilePlace tile, int step, u32 stage) const {
    const int depth = (block.firstStep() + step) * Shape::kStep, share = block.at.m;
    if (share >= block.sharesOfB(tile.n))
      return;
    const SharedAddress to = SharedAddress(shared.b[stage]) + u32(share * Shape::kShareN) * kSwizzledRowBytes;
    constexpr int kGroupCols = Shape::kGroupCols;
    const int own = tile.n * (Shape::kN / kGroupCols) + share * (Shape::kShareN / kGroupCols),
              group = Cluster::kIsOfBoth ? min(own, ceilDiv(Config::kCols, kGroupCols) - 1) : own;
    if constexpr (Cluster::kBlocksM > 1)
      copyBoxToBlocks(to, weight, {depth, 0, 0, 0, group}, shared.full[stage], block.at.blocksOfCols());
    else
      copyBox(to, weight, {depth, 0, 0, 0, group}, shared.full[stage]);
  }
  KILN_DEVICE void expectStep(TilePlace tile, u32 stage) const {
    arriveExpecting(shared.full[stage],
                    u32(block.copiedRows(tile.m) + block.sharesOfB(tile.n) * Shape::kShareN) * kSwizzledRowBytes);
  }
  KILN_DEVICE void waitForRelease(RingPlace<Shape::kStages> ring) const {
    if constexpr (Cluster::kCopiesToOthers)
      waitClusterBarrier(shared.empty[ring.stage], ring.parity ^ 1);
    else
      waitBarrier(shared.empty[ring.stage], ring.parity ^ 1);
  }

  /// Copies the weight's first steps, as many as there are stages, before anything that another kernel may still write.
  KILN_DEVICE void copyFirstOfWeight() const {
    if (!block.has(0))
      return;
    const TilePlace first = block.place(0);
    for (int step = 0; step < kAtOnce; ++step)
      if (step < block.steps()) {
        expectStep(first, step);
        copyB(first, step, step);
      }
  }
  /// Copies all else: the rows of these steps, and all further steps of the block's tiles.
  KILN_DEVICE void copyRest() const {
    if (!block.has(0))
      return;
    const TilePlace first = block.place(0);
    waitForDependencies();
    if (Shape::asksForRowsFirst(block.rows))
      waitForAskedRows();
    for (int step = 0; step < kAtOnce; ++step)
      if (step < block.steps())
        copyA(first, step, step);
    int step = min(block.steps(), kAtOnce);
    auto ring = RingPlace<Shape::kStages>::after(step);
    for (int i = 0; block.has(i); ++i, step = 0)
      for (const TilePlace place = block.place(i); step < block.steps(); ++step) {
        waitForRelease(ring);
        expectStep(place, ring.stage);
        copyA(place, step, ring.stage);
        copyB(place, step, ring.stage);
        ring.advance();
      }
    waitForOthers(ring);
  }

  /// Loads of rows for their operands would queue behind the copies of all blocks.
  KILN_DEVICE void waitForAskedRows() const {
    if constexpr (Shape::kHoldsRows)
      waitBarrier(shared.mail.asked, 0);
  }

  /// Other blocks tell this one that they have released stages; it must not end before. `ring`: behind the last step.
  KILN_DEVICE void waitForOthers(RingPlace<Shape::kStages> ring) const {
    if constexpr (Cluster::kCopiesToOthers)
      for (int i = 0; i < Shape::kStages; ++i, ring.advance())
        waitForRelease(ring);
  }
};

} // namespace kiln
