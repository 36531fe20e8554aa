//===- wgmma_rows.cuh - matrix product of few rows in the tensor cores of Hopper ----===//
//
// out[rows, cols] = A[rows, depth] · weight[cols, depth]^T for the rows of decode with a batch or of a short prompt,
// elements of bf16 or f16, sums in float; sm_90a only. It is bound by reading the weight once, and by latency: the
// blocks of many kernels like this one run one after the other.
//
// Method: the depth is cut into kParts · kGroups ranges, each of kChains chains (gemv/depth_cut.cuh). The blocks of a
// cluster, kParts, have the ranges of one tile of kTileN columns, each block one for each of its kGroups warpgroups. A
// producer thread (wgmma_rows_copies.cuh) copies steps of both operands, 128 bytes of each row, into rings of stages
// for each warpgroup (TMA); the first steps of the weight before it waits for the kernels before. The rows of a range,
// which are on the critical path, come by one copy if their steps all have a stage. A warpgroup multiplies its range
// (wgmma_rows_products.cuh). Then the sums of all ranges of a row go to one block of the cluster, the row's owner,
// through distributed shared memory (st.async; its barrier counts the bytes). The owner adds them in the order of the
// ranges, applies the epilogue and stores. Chains have sums of their own, which the warpgroup adds before.
//
// Where there are more tiles than multiprocessors, a block computes kTurns tiles one after the other: the producer
// copies the next tile's weight while the warpgroup finishes one, and the rows come once, if they come by one copy.
//
// Beside the producer, three warps load what the epilogue reads by rows and leave it in shared memory: statistics of
// rows are on their way while the others multiply. With kMails each row's are computed by one block (row_mail.cuh).
//
// Several GPUs, the ranks, may each have a part of the product: of the depth, a range of all. Then the thread that has
// the sums of a row's 8 columns exchanges them with the same thread of the other ranks before it applies the epilogue.
//
// So a row's bits depend on the cut, kParts · kGroups and kChains, and on nothing else: not on the number of rows, nor
// on the tile, nor on how the ranges are spread over blocks and warpgroups. gemv/mma_warps.cuh gives the same bits.
//
// Which thread holds what: behind the exchange a thread has 8 columns of one or more rows, as vectors that lie beside
// those of neighbouring threads.
//
// Maps: of A a tensor of rank 3, extents [64, rows, depth / 64], strides of a row and of 64 elements, box [64, boxRows,
// steps of a range], where boxRows is as in gemm/product_boxes.cuh; or, where rows come step by step, of rank 2 as in
// gemm/wgmma_tiled.cuh. Of the weight as there.
//
// Launch: grid (kParts · ceildiv(cols, kTurns · kTileN), ceildiv(rows, kRows)), clusters of kParts; block
// 128 · (kGroups + 1).
//
// Shared memory, all dynamic: kGroups · (kRowStages · kRows + kStages · kTileN) · 128 bytes; for the exchange
// kParts · kGroups · ceildiv(kRows, kParts) · (kTileN + 4) · 4 bytes; 16 bytes for each own row; and the barriers;
// or kShared bytes, if these are more.
//
// The weight is read before waitForDependencies(): another kernel must not write it.
//
// Config (all constants):
//   kCols, kDepth    extents
//   kRows            the most rows of a block: 8, 16, 32 or 64
//   kTileN           a multiple of 32, up to 256
//   kParts           blocks of a cluster, 1 to 8
//   kGroups          warpgroups of a block, 1 to 4
//   kChains          chains of a range
//   kTurns           tiles of a block; 1 unless kParts and kGroups are 1
//   kStages          of a warpgroup's ring, up to the steps of a range
//   kRowStages       the same for the rows: kStages, or the steps of a range
//   kMails           optional: the epilogue shares operands of rows by mail
//   kShared          bytes that the block takes at least, so that no more blocks share a multiprocessor than should
//
// Epilogue: as in gemm/wgmma_tiled.cuh, also with what epilogue.cuh says of rows.
//
// Ranks: OneRank, or an Exchange (exchange/thread_exchange.cuh), for which a thread may have one vector, and a grid one
// block in y.
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
#include "epilogue.cuh"
#include "exchange/thread_exchange.cuh"
#include "gemm/product_boxes.cuh"
#include "gemm/ring_place.cuh"
#include "gemv/wgmma_rows_copies.cuh"
#include "gemv/wgmma_rows_mail.cuh"
#include "gemv/wgmma_rows_products.cuh"
#include "gemv/wgmma_rows_shape.cuh"

namespace kiln {

/// The work of one thread of a block. Rows count from the block's first.
template <class Config, class T> struct WgmmaRows {
  using Shape = WgmmaRowsShape<Config, T>;
  using Cut = typename Shape::Cut;
  using Element = T;
  static constexpr int kParts = Shape::kParts, kGroups = Shape::kGroups, kStages = Shape::kStages;

  WgmmaRowsStorage<Config, T> &shared;
  const TensorMap &a, &weight;
  const int allRows;
  const int part = kParts > 1 ? int(clusterRank()) : 0, firstTile = int(blockIndexX()) / kParts * Shape::kTurns;
  const int tiles = Shape::kTurns > 1 ? min(Shape::kTiles - firstTile, Shape::kTurns) : 1;
  const int firstRow = int(blockIndexY()) * Shape::kRows, rows = min(allRows - firstRow, Shape::kRows);
  const int copiedRows = boxRows<Shape::kRows>(allRows);

  /// The first step of a warpgroup's range; that of the next range is behind its last.
  KILN_DEVICE int firstStep(int group) const { return Cut::firstStepOfRange(part * kGroups + group); }
  KILN_DEVICE int steps(int group) const { return firstStep(group + 1) - firstStep(group); }

  /// The rows of the block that it owns: part, part + kParts, …
  KILN_DEVICE int ownRows() const { return max(0, ceilDiv(rows - part, kParts)); }

  KILN_DEVICE void initBarriers() const {
    for (int group = 0; group < kGroups; ++group) {
      initBarrier(shared.rowsFull[group], 1);
      for (int stage = 0; stage < kStages; ++stage) {
        initBarrier(shared.full[group][stage], 1);
        initBarrier(shared.empty[group][stage], 4); // warps
      }
    }
    initBarrier(shared.complete, kParts > 1 ? 1 : Shape::kConsumers);
    initBarrier(shared.taken, Shape::kConsumers); // of the only warpgroup
    initBarrier(shared.loaded, Shape::kLoaders * int(kWarpSize));
    if constexpr (Shape::kMails) {
      initBarrier(shared.mail.stamp.known, 1);
      initBarrier(shared.mail.asked, 1);
    }
    fenceBarriers();
    if constexpr (kParts > 1)
      arriveExpecting(shared.complete, u32(ownRows()) * Shape::kRanges * Shape::kN * u32(sizeof(float)));
  }

  /// The rows' elements of a step in a stage. One copy of all steps leaves them one behind the other, as large as
  /// boxes.
  KILN_DEVICE SharedAddress stageOfRows(int group, int stage) const {
    if constexpr (Shape::kCopiesRowsAtOnce)
      return SharedAddress(shared.a[group][0]) + u32(stage * copiedRows) * Shape::kRowBytes;
    else
      return SharedAddress(shared.a[group][stage]);
  }

  //===--- the warps that load what the epilogue reads by rows

  template <class Epilogue> using OfRow = RowOperandsOf<Epilogue>;

  /// Where it is of one of the block's own rows.
  template <class Epilogue> KILN_DEVICE typename OfRow<Epilogue>::Type &ofRow(int own) const {
    using Type = typename OfRow<Epilogue>::Type;
    static_assert(sizeof(Type) <= sizeof(shared.ofRows[0]) && alignof(Type) <= 16, "there is room for it");
    return *reinterpret_cast<Type *>(shared.ofRows[own]);
  }

  /// Called by warp `loader` of them. A quad has a row, since its lanes load parts of it.
  template <class Epilogue> KILN_DEVICE void loadOfRows(const Epilogue &epilogue, int loader) const {
    constexpr int kQuads = Shape::kLoaders * int(kWarpSize) / 4, kRounds = ceilDiv(Shape::kOwnRows, kQuads);
#pragma unroll
    for (int round = 0; round < kRounds; ++round) {
      const int own = round * kQuads + loader * int(kWarpSize) / 4 + int(laneIndex()) / 4;
      const auto value = OfRow<Epilogue>::load(epilogue, min(firstRow + own * kParts + part, allRows - 1));
      if (own < Shape::kOwnRows && laneIndex() % 4 == 0)
        ofRow<Epilogue>(own) = value;
    }
    arrive(shared.loaded);
  }

  //===--- a consumer

  /// All ranges of the rows that the block owns are in its shared memory, of the tile of this turn.
  KILN_DEVICE void waitForSums(int turn) const {
    if constexpr (kParts > 1)
      waitClusterBarrier(shared.complete, 0);
    else
      waitBarrier(shared.complete, u32(turn) & 1);
  }
  /// The sums of a tile have been read: the warpgroup may give those of the next.
  KILN_DEVICE void releaseSums() const {
    syncWarp(); // lanes give where others of their warp have read
    arrive(shared.taken);
  }

  //===--- the epilogue of a consumer

  /// The places of a thread's vectors: one of its rows in each turn.
  KILN_DEVICE int ownRow(int turn) const { return turn * Shape::kRowsAtOnce + int(threadIndex()) / Shape::kRowThreads; }
  KILN_DEVICE bool isOwn(int turn) const {
    return ownRow(turn) < ownRows() && int(threadIndex()) < Shape::kRowsAtOnce * Shape::kRowThreads;
  }
  KILN_DEVICE int rowOf(int turn) const { return firstRow + ownRow(turn) * kParts + part; }
  KILN_DEVICE int colInTile(int vector) const {
    return (vector * Shape::kRowThreads + int(threadIndex()) % Shape::kRowThreads) * Shape::V;
  }
  KILN_DEVICE int colOf(int tile, int vector) const { return tile * Shape::kN + colInTile(vector); }

  template <class Epilogue> using Loaded =
      typename Epilogue::template Operands<Shape::V>[Shape::kRowTurns][Shape::kVectors];

  /// Loads what the epilogue reads, of the nearest row and columns where the thread has none.
  template <class Epilogue>
  KILN_DEVICE void load(Loaded<Epilogue> &loaded, const Epilogue &epilogue, int tile) const {
#pragma unroll
    for (int turn = 0; turn < Shape::kRowTurns; ++turn) {
      const int row = min(rowOf(turn), allRows - 1);
#pragma unroll
      for (int vector = 0; vector < Shape::kVectors; ++vector)
        loaded[turn][vector] = epilogue.template operands<Shape::V>(
            row, Shape::kColsAreExact ? colOf(tile, vector) : min(colOf(tile, vector), Config::kCols - Shape::V));
    }
  }

  /// The sum of all ranges for the vector.
  KILN_DEVICE Vec<float, Shape::V> product(int turn, int vector) const {
    auto sum = kiln::load<Shape::V>(&shared.sums[0][ownRow(turn)][colInTile(vector)]);
#pragma unroll
    for (int range = 1; range < Shape::kRanges; ++range)
      sum += kiln::load<Shape::V>(&shared.sums[range][ownRow(turn)][colInTile(vector)]);
    return sum;
  }

  template <class Epilogue, class Sum>
  KILN_DEVICE void finish(const Epilogue &epilogue, const Loaded<Epilogue> &loaded, Sum &sumOfParts, int tile) const {
    static_assert(!Sum::kExchanges || Shape::kVectorsAreOnce, "each thread exchanges one vector");
#pragma unroll
    for (int turn = 0; turn < Shape::kRowTurns; ++turn) {
      const bool isOwnRow = isOwn(turn);
      const auto &ofOwn = ofRow<Epilogue>(isOwnRow ? ownRow(turn) : 0);
#pragma unroll
      for (int vector = 0; vector < Shape::kVectors; ++vector) {
        const bool exists = isOwnRow && (Shape::kColsAreExact || colOf(tile, vector) < Config::kCols);
        const auto part = exists ? product(turn, vector) : Vec<float, Shape::V>{};
        passProduct(epilogue, sumOfParts(part, exists), loaded[turn][vector], ofOwn, rowOf(turn), colOf(tile, vector),
                    exists);
      }
    }
  }

  template <class Epilogue, class Ranks> KILN_DEVICE void consume(const Epilogue &epilogue, const Ranks &ranks) const {
    auto ring = RingPlace<kStages>::after(0);
    for (int turn = 0; turn < tiles; ++turn)
      consumeTile(epilogue, ranks, turn, ring);
  }
  template <class Epilogue, class Ranks>
  KILN_DEVICE void consumeTile(const Epilogue &epilogue, const Ranks &ranks, int turn, RingPlace<kStages> &ring) const {
    SumOfParts<Ranks> sumOfParts(ranks);
    Loaded<Epilogue> loaded;
    load(loaded, epilogue, firstTile + turn);
    using Products = WgmmaRowsProducts<WgmmaRows>;
    const Products products{*this, int(warpgroupIndex())};
    typename Products::AllSums sums;
    products.multiply(sums, ring);
    if (Shape::kTurns > 1 && turn > 0)
      waitBarrier(shared.taken, u32(turn - 1) & 1);
    products.give(sums);
    waitForSums(turn);
    if constexpr (OfRow<Epilogue>::kExists)
      waitBarrier(shared.loaded, 0);
    finish(epilogue, loaded, sumOfParts, firstTile + turn);
    if (Shape::kTurns > 1 && turn + 1 < tiles)
      releaseSums();
  }
};

/// The kernel's body.
template <class Config, class T, class Epilogue, class Ranks = OneRank>
KILN_DEVICE void wgmmaRows(int rows, const TensorMap &a, const TensorMap &weight, const Epilogue &epilogue,
                           const Ranks &ranks = {}) {
  using Shape = WgmmaRowsShape<Config, T>;
  allowDependents();
  const WgmmaRows<Config, T> thread{dynamicShared<WgmmaRowsStorage<Config, T>>(), a, weight, rows};
  const int group = int(warpgroupIndex()), warp = int(warpIndex() % 4);
  if (threadIndex() == Shape::kConsumers)
    thread.initBarriers();
  syncThreads();
  // No block may give sums before the barriers of the others are initialised.
  if constexpr (Shape::kParts > 1)
    arriveCluster();
  if (group == Shape::kGroups) {
    const WgmmaRowsCopies<WgmmaRows<Config, T>> copies{thread};
    if (threadIndex() == Shape::kConsumers)
      copies.copyFirstOfWeight();
    if constexpr (Shape::kParts > 1) {
      syncWarp();
      waitCluster();
    }
    if (threadIndex() == Shape::kConsumers) {
      copies.copyRest();
    } else if constexpr (RowOperandsOf<Epilogue>::kExists) {
      if constexpr (Shape::kMails) {
        if (warp > 0)
          WgmmaRowsMailing<WgmmaRows<Config, T>, Epilogue>{thread, epilogue}.run(warp - 1);
      } else if (warp > 0) {
        waitForDependencies();
        thread.loadOfRows(epilogue, warp - 1);
      }
    }
  } else {
    waitForDependencies();
    if constexpr (Shape::kParts > 1)
      waitCluster();
    thread.consume(epilogue, ranks);
  }
}

} // namespace kiln
