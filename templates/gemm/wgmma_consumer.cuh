//===- wgmma_consumer.cuh - the warpgroups that multiply in wgmma_tiled.cuh ----------===//
//
// A team multiplies a tile: it takes the stages that the producer fills one after the other, and each warpgroup keeps
// the sums of its rows. What becomes of the sums is the caller's.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "device/barrier.cuh"
#include "device/base.cuh"
#include "device/cluster.cuh"
#include "device/index.cuh"
#include "device/shared.cuh"
#include "device/shared_product.cuh"
#include "device/tensor_copy.cuh"
#include "gemm/ring_place.cuh"
#include "gemm/tile_order.cuh"
#include "gemm/wgmma_copies.cuh"
#include "gemm/wgmma_shape.cuh"

namespace kiln {

/// The work of one thread of a block. Order: which tiles it has (tile_order.cuh).
template <class Config, class T, class Order> struct WgmmaConsumer {
  using Settings = Config;
  using Shape = WgmmaTiledShape<Config, T>;
  using Cluster = typename Shape::Cluster;
  static constexpr int kRowTiles = Shape::kRowTiles;
  using RangeSums = WarpgroupSums<Shape::kN / 8>[kRowTiles];

  /// The sums of a tile's first range, in the end of all; and those of a later one.
  struct Sums {
    RangeSums ranges[min(Shape::kRanges, 2)];
    KILN_DEVICE const RangeSums &total() const { return ranges[0]; }
  };
  using Ring = RingPlace<Shape::kStages>;

  WgmmaTiledStorage<Config, T> &shared;
  const TensorMap &a, &weight;
  const WgmmaBlock<Config, T, Order> block;
  const int rows = block.rows;

  //===--- steps of a tile

  /// The stage's memory is no longer read by this warp: the blocks that copy there may know.
  KILN_DEVICE void release(u32 stage) const {
    const int lane = int(laneIndex());
    if constexpr (Cluster::kCopiesToOthers) {
      if (lane < Cluster::kCopiers)
        arriveBehindProducts(inBlock(&shared.empty[stage], block.at.copier(lane)));
    } else if (lane == 0) {
      arrive(shared.empty[stage]);
    }
  }

  /// The rows of a warpgroup in the block's tile: the first, and the number of those from there on that copies bring;
  /// and the columns that they bring.
  struct Rows {
    int first, copied, cols;
  };

  /// Waits for a step and starts its products.
  KILN_DEVICE void startStep(RangeSums &sums, Ring ring, Rows of, bool adds) const {
    if constexpr (Cluster::kCopiesToOthers)
      waitClusterBarrier(shared.full[ring.stage], ring.parity);
    else
      waitBarrier(shared.full[ring.stage], ring.parity);
    fenceProducts(sums);
    const SharedAddress left = SharedAddress(shared.a[ring.stage]) + u32(of.first) * kSwizzledRowBytes;
    const SharedAddress right(shared.b[ring.stage]);
#pragma unroll
    for (int i = 0; i < Shape::kInstructions; ++i)
#pragma unroll
      for (int m = 0; m < kRowTiles; ++m)
        startSharedProduct<T>(sums[m], left + u32(m) * 64 * kSwizzledRowBytes, right, u32(i) * 2 * kChunkBytes,
                              adds || i > 0, max(0, min(of.copied - m * 64, 64)), of.cols);
    commitProducts();
  }

  /// Starts the steps of a range behind the first. The last one's products are still under way afterwards.
  KILN_DEVICE void startFurtherSteps(RangeSums &sums, Ring &ring, Rows of, int range) const {
#pragma unroll 1
    for (int step = 1; step < block.stepsOfRange(range); ++step) {
      const u32 last = ring.stage;
      ring.advance();
      startStep(sums, ring, of, true);
      waitProducts<1>(sums);
      release(last);
    }
  }

  /// Waits for the products of the latest range, which end with this stage, and adds its sums to those before.
  KILN_DEVICE void finishRange(Sums &sums, u32 last) const {
    RangeSums &latest = sums.ranges[min(Shape::kRanges, 2) - 1];
    waitProducts<0>(latest);
    release(last);
    receive(latest);
    if constexpr (Shape::kRanges > 1) {
      receive(sums.ranges[0]);
#pragma unroll
      for (int m = 0; m < kRowTiles; ++m)
        addSums(sums.ranges[0][m], latest[m]);
    }
  }

  /// Starts all steps of the block's i-th tile. Returns the stage of the last one, whose products are still under way:
  /// finishRange completes the sums.
  KILN_DEVICE u32 accumulate(Sums &sums, int i, int row) const {
    auto ring = Ring::after(u32(i * block.steps()));
    const TilePlace place = block.place(i);
    const Rows of = {row, block.rowsInStage(place.m) - row, block.sharesOfB(place.n) * Shape::kShareN};
    startStep(sums.ranges[0], ring, of, false);
    startFurtherSteps(sums.ranges[0], ring, of, 0);
    if constexpr (Shape::kRanges > 1) {
      const u32 last = ring.stage;
      ring.advance();
      startStep(sums.ranges[1], ring, of, false);
      waitProducts<1>(sums.ranges[0]);
      release(last);
      startFurtherSteps(sums.ranges[1], ring, of, 1);
#pragma unroll 1
      for (int range = 2; range < Shape::kRanges; ++range) {
        finishRange(sums, ring.stage);
        ring.advance();
        startStep(sums.ranges[1], ring, of, false);
        startFurtherSteps(sums.ranges[1], ring, of, range);
      }
    }
    return ring.stage;
  }

  //===--- tiles of a team

  /// Beside so many sums, and warps beside the producer that keep registers, there are none for values that can be
  /// computed where they are used.
  static constexpr int kRegistersBesideSums = Shape::kConsumerRegisters - int(sizeof(Sums) / sizeof(float));
  static constexpr bool kIsTight = Shape::kMails && kRegistersBesideSums <= 72;

  /// A team's turn comes once for each of its tiles; the first team need not wait for its first.
  KILN_DEVICE void waitForTurn(int i) const {
    if constexpr (Shape::kTeams > 1)
      waitBarrier(shared.turn[i % Shape::kTeams], u32(i / Shape::kTeams + (i % Shape::kTeams == 0)) & 1);
  }
  KILN_DEVICE void passTurn(int i) const {
    if constexpr (Shape::kTeams > 1)
      if (laneIndex() == 0)
        arrive(shared.turn[(i + 1) % Shape::kTeams]);
  }

  /// Multiplies the tiles of the team. For each, end.prepare(at) may load something, where `at` is the thread's place;
  /// end.finish(sums, stage, prepared, i, place, at) gets that and the sums of the block's i-th tile while the products
  /// of the last step, which read `stage`, may be under way (finishRange).
  template <class End> KILN_DEVICE void consume(End &&end) const {
    const int consumer = int(warpgroupIndex()) - 1, team = consumer / Shape::kConsumers;
    const int row = consumer % Shape::kConsumers * Shape::kConsumerM;
    for (int i = team; block.has(i); i += Shape::kTeams) {
      // While registers are free, and another team's products run.
      const auto prepared = end.prepare(threadPlace(block.place(i), row));
      Sums sums;
      waitForTurn(i);
      const u32 last = accumulate(sums, i, row);
      passTurn(i);
      const TilePlace place = block.place(i);
      end.finish(sums, last, prepared, i, place, threadPlace(place, row));
    }
  }

  //===--- what a thread has

  // A thread has kThreadCols neighbouring columns of each group in two rows of each 64; it passes them in vectors.
  static constexpr int kGroups = Shape::kGroups, kThreadRows = Shape::kThreadRows;
  static constexpr int V = Shape::kOutputVec, kVectors = Shape::kThreadCols / V;

  /// The first row and column of a thread, and the first row that no tile before its tile has.
  struct ThreadPlace {
    int row, col, own;
    KILN_DEVICE int rowOf(int i) const { return row + i / 2 * 64 + i % 2 * 8; }
    KILN_DEVICE int colOf(int group, int vector) const { return col + group * Shape::kGroupCols + vector * V; }
  };

  KILN_DEVICE ThreadPlace threadPlace(TilePlace tile, int row) const {
    return {block.firstRow(tile.m) + row + int(warpIndex() % 4) * 16 + int(laneIndex()) / 4,
            tile.n * Shape::kN + int(laneIndex()) % 4 * Shape::kThreadCols, tile.m * Shape::kM};
  }
};

} // namespace kiln
