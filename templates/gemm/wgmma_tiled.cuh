//===- wgmma_tiled.cuh - matrix product in the tensor cores of Hopper ------------===//
//
// out[rows, cols] = A[rows, depth] · weight[cols, depth]^T, elements of bf16 or f16, sums in float; sm_90a only. The
// epilogue receives the sums, applies the ops that follow the product, and stores the results.
//
// Method: warp specialisation, as in CUTLASS's persistent kernels. A block has a producer, one thread, and teams of
// consumer warpgroups. The producer copies steps of both operands, 128 bytes of each row, into a ring of kStages stages
// (TMA). A team multiplies a kTileM × kTileN tile of the output, each of its kConsumers warpgroups a share of the rows.
// Blocks stay on their multiprocessor and take one tile after the other. With two teams or more the tiles go to the
// teams in turn, so that the tensor cores multiply one team's tile while another team is in its epilogue.
//
// Hand-over: the producer fills a stage when its consumers have arrived at `empty`; its bytes arrive at `full`. Teams
// share the ring, and a wait for `full` cannot tell the use of a stage that a team waits for from an earlier use. So a
// team starts when the team before it has arrived at `turn`, that is, has seen all its stages full.
//
// Which thread holds what: a product gives a thread columns 2p and 2p + 1 of each 8 columns, p = lane % 4. Rows of the
// weight may be any columns, though. The weight's map permutes them: of each 32 columns, column 8p + 2j + e becomes row
// 8j + 2p + e of the stage, so that a thread ends up with 8 neighbouring columns, a vector for the epilogue.
//
// Maps: of A a tensor of rank 2, extents [depth, rows], box [64, min(kTileM, rows rounded up to a multiple of 8)]: rows
// past the end take as long to copy as others. Of the weight one of rank 5, extents
// [depth, 2, 4, 4, cols / 32], strides in rows 1, 8, 2 and 32, box [64, 2, 4, 4, kTileN / 32]. The weight's rows are a
// multiple of 32.
//
// Launch: grid of as many blocks as there are multiprocessors or tiles, whichever is less; block
// 128 · (1 + kTeams · kConsumers). Tiles are taken in groups of 16 along M, so that the blocks that run at a time share
// operands in L2.
//
// Shared memory, all dynamic: kStages · (kTileM + kTileN) · 128 bytes, and the barriers.
//
// Registers: a consumer's sums take kTileM / kConsumers · kTileN / 128. The producer gives registers to the consumers.
//
// Edges: columns past the end are zero in the stages, rows are zero or what was there before. Both are dropped before
// the epilogue.
//
// The weight is read before waitForDependencies(): another kernel must not write it.
//
// Config (all constants):
//   kCols, kDepth       extents
//   kTileM              a multiple of 64 · kConsumers, up to 256
//   kTileN              a multiple of 32, up to 256
//   kStages             2 or more
//   kConsumers, kTeams  warpgroups of a team, and teams
//
// Epilogue: as in mma_tiled.cuh, also with operands of rows (epilogue.cuh).
//
//===----------------------------------------------------------------------===//
#pragma once

#include "device/barrier.cuh"
#include "device/base.cuh"
#include "device/block.cuh"
#include "device/grid.cuh"
#include "device/index.cuh"
#include "device/shared.cuh"
#include "device/shared_product.cuh"
#include "device/tensor_copy.cuh"
#include "device/vec.cuh"
#include "epilogue.cuh"
#include "gemm/product_boxes.cuh"
#include "gemm/ring_place.cuh"
#include "gemm/tile_order.cuh"
#include "shape.cuh"

namespace kiln {

/// Constants that follow from a Config for elements of type T.
template <class Config, class T> struct WgmmaTiledShape {
  static constexpr int kM = Config::kTileM, kN = Config::kTileN, kStages = Config::kStages;
  static constexpr int kConsumers = Config::kConsumers, kTeams = Config::kTeams;
  static constexpr int kThreads = int(kWarpgroupSize) * (1 + kTeams * kConsumers);
  static constexpr int kConsumerM = kM / kConsumers, kRowTiles = kConsumerM / 64; // a warpgroup's part, by 64 rows
  static constexpr int kStep = int(kSwizzledRowBytes / sizeof(T));                // of the depth
  static constexpr int kSteps = ceilDiv(Config::kDepth, kStep);
  static constexpr int kParts = 4; // of a step: 32 bytes each, the depth of an instruction
  static constexpr u32 kBytesA = kM * kSwizzledRowBytes, kBytesB = kN * kSwizzledRowBytes;
  static constexpr int kTilesN = ceilDiv(Config::kCols, kN);
  static constexpr bool kColsAreExact = Config::kCols % kN == 0;
  static constexpr int kOutputVec = widestVector(Config::kCols, 8);
  /// Registers of a thread in each role: together what a multiprocessor has. With one consumer, every thread can have
  /// as many as an instruction can name.
  static constexpr bool kMovesRegisters = kThreads > 256;
  static constexpr int kProducerRegisters = 24, kConsumerRegisters = kThreads > 384 ? 160 : 240;

  static_assert(sizeof(T) == 2, "bf16 or f16");
  static_assert(kM % (64 * kConsumers) == 0 && kM <= 256, "warpgroups take whole instructions, a box has 256 rows");
  static_assert(kN % 32 == 0 && kN <= 256, "columns are permuted within 32, an instruction has 256");
  static_assert(kThreads <= 512, "a consumer has the registers for its sums");
  static_assert(kStages >= 2, "one step is multiplied while another arrives");
};

template <class Config, class T> struct WgmmaTiledStorage {
  using Shape = WgmmaTiledShape<Config, T>;
  alignas(kWarpgroupTileAlignment) u8 a[Shape::kStages][Shape::kBytesA];
  alignas(kWarpgroupTileAlignment) u8 b[Shape::kStages][Shape::kBytesB];
  SharedBarrier full[Shape::kStages], empty[Shape::kStages], turn[Shape::kTeams];
};

template <class Config, class T>
constexpr SharedBytes kWgmmaTiledShared = {0, sizeof(WgmmaTiledStorage<Config, T>)};

/// The work of one thread of a block. Order: which tiles it has (tile_order.cuh).
template <class Config, class T, class Order = GroupedTiles> struct WgmmaTiled {
  using Shape = WgmmaTiledShape<Config, T>;
  static constexpr int kRowTiles = Shape::kRowTiles;
  using Sums = WarpgroupSums<Shape::kN / 8>;

  WgmmaTiledStorage<Config, T> &shared;
  const TensorMap &a, &weight;
  const int rows;
  const Order order = {ceilDiv(rows, Shape::kM), Shape::kTilesN};

  KILN_DEVICE void initBarriers() const {
    for (int i = 0; i < Shape::kStages; ++i) {
      initBarrier(shared.full[i], 1);
      initBarrier(shared.empty[i], 4 * Shape::kConsumers); // their warps
    }
    for (int i = 0; i < Shape::kTeams; ++i)
      initBarrier(shared.turn[i], 4 * Shape::kConsumers);
    fenceBarriers();
  }

  //===--- the producer

  KILN_DEVICE void copyA(TilePlace tile, int step, u32 stage) const {
    copyBox(SharedAddress(shared.a[stage]), a, {step * Shape::kStep, tile.m * Shape::kM}, shared.full[stage]);
  }
  KILN_DEVICE void copyB(TilePlace tile, int step, u32 stage) const {
    copyBox(SharedAddress(shared.b[stage]), weight, {step * Shape::kStep, 0, 0, 0, tile.n * (Shape::kN / 32)},
            shared.full[stage]);
  }
  KILN_DEVICE void expectStep(u32 stage) const {
    arriveExpecting(shared.full[stage], u32(boxRows<Shape::kM>(rows)) * kSwizzledRowBytes + Shape::kBytesB);
  }

  /// Copies all steps of the block's tiles; the weight's first ones before anything that another kernel may still
  /// write.
  KILN_DEVICE void produce() const {
    constexpr int kAtOnce = min(Shape::kSteps, Shape::kStages);
    if (!order.has(0))
      return;
    const TilePlace first = order.place(0);
    for (int step = 0; step < kAtOnce; ++step) {
      expectStep(step);
      copyB(first, step, step);
    }
    waitForDependencies();
    for (int step = 0; step < kAtOnce; ++step)
      copyA(first, step, step);
    auto ring = RingPlace<Shape::kStages>::after(kAtOnce);
    int step = kAtOnce;
    for (int i = 0; order.has(i); ++i, step = 0)
      for (const TilePlace place = order.place(i); step < Shape::kSteps; ++step) {
        waitBarrier(shared.empty[ring.stage], ring.parity ^ 1);
        expectStep(ring.stage);
        copyA(place, step, ring.stage);
        copyB(place, step, ring.stage);
        ring.advance();
      }
  }

  //===--- a consumer

  /// The stage's memory is no longer read by this warp.
  KILN_DEVICE void release(u32 stage) const {
    if (laneIndex() == 0)
      arrive(shared.empty[stage]);
  }

  /// The rows of an instruction, from `row` of the tile on, that copies bring.
  KILN_DEVICE int copiedRows(int row) const { return max(0, min(boxRows<Shape::kM>(rows) - row, 64)); }

  /// Waits for a step and starts its products; `row` is the warpgroup's first in the tile.
  KILN_DEVICE void startStep(Sums (&sums)[kRowTiles], RingPlace<Shape::kStages> ring, int row, bool adds) const {
    waitBarrier(shared.full[ring.stage], ring.parity);
    fenceProducts(sums);
    const SharedAddress left = SharedAddress(shared.a[ring.stage]) + u32(row) * kSwizzledRowBytes;
    const SharedAddress right(shared.b[ring.stage]);
#pragma unroll
    for (int part = 0; part < Shape::kParts; ++part)
#pragma unroll
      for (int m = 0; m < kRowTiles; ++m)
        startSharedProduct<T>(sums[m], left + u32(m) * 64 * kSwizzledRowBytes, right, u32(part) * 2 * kChunkBytes,
                              adds || part > 0, copiedRows(row + m * 64));
    commitProducts();
  }

  /// Starts all steps of the block's i-th tile. Returns the stage of the last one, whose products are still under way.
  KILN_DEVICE u32 accumulate(Sums (&sums)[kRowTiles], int i, int row) const {
    auto ring = RingPlace<Shape::kStages>::after(u32(i * Shape::kSteps));
    startStep(sums, ring, row, false);
#pragma unroll 1
    for (int step = 1; step < Shape::kSteps; ++step) {
      const u32 last = ring.stage;
      ring.advance();
      startStep(sums, ring, row, true);
      waitProducts<1>(sums);
      release(last);
    }
    return ring.stage;
  }

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
  /// end.finish(sums, stage, prepared, place, at, isFirst, isLast) gets that and the sums while the products of the
  /// last step, which read `stage`, may be under way. isFirst, isLast: the team has no tile of these rows before it, or
  /// behind it.
  template <class End> KILN_DEVICE void consume(End &&end) const {
    const int consumer = int(warpgroupIndex()) - 1, team = consumer / Shape::kConsumers;
    const int row = consumer % Shape::kConsumers * Shape::kConsumerM;
    for (int i = team; order.has(i); i += Shape::kTeams) {
      // While registers are free, and another team's products run.
      const auto prepared = end.prepare(threadPlace(order.place(i), row));
      Sums sums[kRowTiles];
      waitForTurn(i);
      const u32 last = accumulate(sums, i, row);
      passTurn(i);
      const TilePlace place = order.place(i);
      auto hasOtherRows = [&](int other) { return !order.has(other) || order.place(other).m != place.m; };
      end.finish(sums, last, prepared, place, threadPlace(place, row),
                 i < Shape::kTeams || hasOtherRows(i - Shape::kTeams), hasOtherRows(i + Shape::kTeams));
    }
  }

  //===--- the epilogue of a consumer

  // A thread has 8 neighbouring columns of each 32, its groups, in two rows of each 64; it passes them in vectors.
  static constexpr int kGroups = Shape::kN / 32, kThreadRows = 2 * kRowTiles;
  static constexpr int V = Shape::kOutputVec, kVectors = 8 / V;

  /// The first row and column of a thread.
  struct ThreadPlace {
    int row, col;
    KILN_DEVICE int rowOf(int i) const { return row + i / 2 * 64 + i % 2 * 8; }
    KILN_DEVICE int colOf(int group, int vector) const { return col + group * 32 + vector * V; }
  };

  KILN_DEVICE static ThreadPlace threadPlace(TilePlace tile, int row) {
    return {tile.m * Shape::kM + row + int(warpIndex() % 4) * 16 + int(laneIndex()) / 4,
            tile.n * Shape::kN + int(laneIndex()) % 4 * 8};
  }

  KILN_DEVICE static Vec<float, V> product(const Sums (&sums)[kRowTiles], int group, int i, int vector) {
    Vec<float, V> values;
#pragma unroll
    for (int v = 0; v < V; ++v) {
      const int element = vector * V + v;
      values[v] = sums[i / 2].tiles[group * 4 + element / 2].values[i % 2 * 2 + element % 2];
    }
    return values;
  }

  /// What the epilogue loads for a tile. The loads are kAhead groups ahead of the stores: one, or two in wide tiles
  /// whose operands take few registers.
  template <class Epilogue> struct Loaded {
    using Operands = typename Epilogue::template Operands<V>;
    static constexpr int kAhead = kGroups >= 6 && sizeof(Operands) * kVectors * kThreadRows <= 128 ? 2 : 1;
    Operands operands[kGroups][kThreadRows][kVectors];
  };

  /// What the epilogue reads of a thread's rows.
  template <class Epilogue> struct OfRows {
    typename RowOperandsOf<Epilogue>::Type rows[kThreadRows];
  };

  template <class Epilogue> KILN_DEVICE OfRows<Epilogue> loadRows(const Epilogue &epilogue, ThreadPlace at) const {
    OfRows<Epilogue> ofRows;
#pragma unroll
    for (int i = 0; i < kThreadRows; ++i)
      ofRows.rows[i] = RowOperandsOf<Epilogue>::load(epilogue, min(at.rowOf(i), rows - 1));
    return ofRows;
  }

  template <bool kWhole, class Epilogue>
  KILN_DEVICE void load(Loaded<Epilogue> &loaded, const Epilogue &epilogue, ThreadPlace at, int group) const {
#pragma unroll
    for (int i = 0; i < kThreadRows; ++i)
#pragma unroll
      for (int vector = 0; vector < kVectors; ++vector) {
        const int row = at.rowOf(i), col = at.colOf(group, vector);
        loaded.operands[group][i][vector] = epilogue.template operands<V>(
            kWhole ? row : min(row, rows - 1), Shape::kColsAreExact ? col : min(col, Config::kCols - V));
      }
  }

  template <bool kWhole, class Epilogue>
  KILN_DEVICE void store(const Sums (&sums)[kRowTiles], const Loaded<Epilogue> &loaded, const OfRows<Epilogue> &ofRows,
                         const Epilogue &epilogue, ThreadPlace at, int group) const {
#pragma unroll
    for (int i = 0; i < kThreadRows; ++i)
#pragma unroll
      for (int vector = 0; vector < kVectors; ++vector) {
        const int row = at.rowOf(i), col = at.colOf(group, vector);
        passProduct(epilogue, product(sums, group, i, vector), loaded.operands[group][i][vector], ofRows.rows[i], row,
                    col, (kWhole || row < rows) && (Shape::kColsAreExact || col < Config::kCols));
      }
  }

  /// Passes the sums to the epilogue when the last products have ended. kWhole: the tile has no row past the end.
  template <bool kWhole, class Epilogue>
  KILN_DEVICE void finish(Sums (&sums)[kRowTiles], u32 last, const OfRows<Epilogue> &ofRows, const Epilogue &epilogue,
                          ThreadPlace at) const {
    Loaded<Epilogue> loaded;
    // With rows past the end, addresses take the registers for loads ahead; so do statistics beside many sums.
    constexpr bool kHasStatistics = RowOperandsOf<Epilogue>::kExists || GroupedBy<Epilogue>::kExists;
    constexpr bool kHasRoom = kWhole && !(kHasStatistics && sizeof(sums) >= 160 * sizeof(float));
    constexpr int kAhead = kHasRoom ? min(Loaded<Epilogue>::kAhead, kGroups) : 0;
#pragma unroll
    for (int group = 0; group < kAhead; ++group)
      load<kWhole>(loaded, epilogue, at, group);
    waitProducts<0>(sums);
    release(last);
    receive(sums);
#pragma unroll
    for (int group = 0; group < kGroups; ++group) {
      if (group + kAhead < kGroups)
        load<kWhole>(loaded, epilogue, at, group + kAhead);
      store<kWhole>(sums, loaded, ofRows, epilogue, at, group);
    }
  }
};

/// Runs the roles of a block; `end` as in WgmmaTiled::consume.
template <class Config, class T, class Order, class End>
KILN_DEVICE void runWgmmaTiled(const WgmmaTiled<Config, T, Order> &thread, End &&end) {
  using Shape = WgmmaTiledShape<Config, T>;
  allowDependents();
  if (threadIndex() == 0) {
    prefetchMap(thread.a);
    prefetchMap(thread.weight);
    thread.initBarriers();
  }
  syncThreads();
  if (warpgroupIndex() == 0) {
    if constexpr (Shape::kMovesRegisters)
      giveRegisters<Shape::kProducerRegisters>();
    if (threadIndex() == 0)
      thread.produce();
  } else {
    if constexpr (Shape::kMovesRegisters)
      takeRegisters<Shape::kConsumerRegisters>();
    waitForDependencies();
    thread.consume(end);
  }
}

/// What a consumer does with its sums: it passes them to the epilogue.
template <class Tiled, class Epilogue> struct WgmmaTiledEnd {
  const Tiled &tiled;
  const Epilogue &epilogue;

  using Place = typename Tiled::ThreadPlace;
  using OfRows = typename Tiled::template OfRows<Epilogue>;

  KILN_DEVICE OfRows prepare(Place at) const { return tiled.loadRows(epilogue, at); }
  KILN_DEVICE void finish(typename Tiled::Sums (&sums)[Tiled::kRowTiles], u32 last, const OfRows &ofRows,
                          TilePlace place, Place at, bool, bool) const {
    if ((place.m + 1) * Tiled::Shape::kM <= tiled.rows)
      tiled.template finish<true>(sums, last, ofRows, epilogue, at);
    else
      tiled.template finish<false>(sums, last, ofRows, epilogue, at);
  }
};

/// The kernel's body.
template <class Config, class T, class Epilogue>
KILN_DEVICE void wgmmaTiled(int rows, const TensorMap &a, const TensorMap &weight, const Epilogue &epilogue) {
  using Tiled = WgmmaTiled<Config, T>;
  const Tiled thread{dynamicShared<WgmmaTiledStorage<Config, T>>(), a, weight, rows};
  runWgmmaTiled(thread, WgmmaTiledEnd<Tiled, Epilogue>{thread, epilogue});
}

} // namespace kiln
