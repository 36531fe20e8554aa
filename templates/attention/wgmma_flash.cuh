//===- wgmma_flash.cuh - causal attention in the tensor cores of Hopper -------------===//
//
// The attention of mma_flash.cuh, for many queries per head (prefill), elements of bf16 or f16; sm_90a only.
//
// Method: FlashAttention-3 (Shah et al., 2024), also without its producer warp: a block keeps a tile of queries, 64 a
// warpgroup, and walks over the tiles of keys, which one of its threads copies by TMA. With two roles, it is of a warp
// that does nothing else: a step is shorter, but a multiprocessor has registers for fewer blocks. Scores, weights and
// output stay in registers; the tensor cores read queries, keys and values from shared memory in the layout of global
// memory, so that nothing is transposed. Queries in registers would leave a multiprocessor room for three blocks, not
// four.
//
// Overlap: a warpgroup starts the products for the next scores as soon as it has the exponents of the present weights,
// so that the tensor cores are at them while it takes the powers; and it starts weights · values right behind, which
// they multiply while it looks for the largest of the next scores. While one warpgroup leaves the tensor cores idle,
// the others of the multiprocessor use them. Warps wait for no one but for copies.
//
// Hand-over: keys and values have a ring of stages each (wgmma_flash_shape.cuh). A tile arrives at `full`; a warp whose
// products have read it arrives at `empty`. A warpgroup whose queries see fewer tiles than others passes the rest of
// them on unread.
//
// Ranges: each range of kRangeKeys keys has a softmax and sums of its own, which are added in order, as flash decoding
// does. With one way, a warpgroup adds one range after the other, and keeps the sums of those before in shared memory.
//
// Ways: with few blocks, the steps of the longest one are what takes the time. With two ways, clusters of two blocks
// have two tiles of queries, and all blocks as many steps (WgmmaFlashTasks): 8 and 9 of a prompt of 1024 tokens. The
// second block sends the sums of its range to the first one's shared memory (st.async, whose bytes a barrier counts).
// The bits are those of one way.
//
// Positions and visibility are those of mma_flash.cuh. Tiles that no query of the block sees are skipped, those that no
// query of a warpgroup sees by that warpgroup. Sums and products are in a fixed order.
//
// Maps: of queries, keys and values a tensor of rank 3, extents [kHeadSize, tokens, heads of all sequences], box
// [64, kTileQueries or kTileKeys, 1]. Rows past the end are zero. With kPastKeys there may be rows between the last key
// that a query sees and the end, in which anything may be: their weights are 0, and the threads put zeros in place of
// their values, in the last tile.
//
// Launch: grid (heads · kWays, batch, ceildiv(queries, kTileQueries · kWays)), clusters of kWays; block 2 ·
// kTileQueries
// + 32 · (kRoles - 1); the blocks with the most keys first.
//
// Shared memory, all of it dynamic: 128 · ceildiv(kHeadSize, 64) · (kTileQueries · kWays + 2 · kStages · kTileKeys)
// bytes, in the layout that tensor_flash.cuh documents; with ranges (4 · kHeadSize + 32) · kTileQueries for one of
// them; and barriers, rounded up to 1024; or kShared bytes, if these are more.
//
// Config:
//   kHeadSize       a multiple of 16, up to 128
//   kTileQueries    a multiple of 64
//   kTileKeys       of a step: 64 or 128
//   kRanges         ranges of keys at most
//   kRangeKeys      of each range but the last one, a multiple of kTileKeys; 0 with one range
//   kWays           1; or 2, with two ranges and tiles of 64 queries
//   kRoles          1: all warps multiply; 2: another one copies
//   kStages         2 or more
//   kShared         bytes that the block takes at least, so that no more blocks share a multiprocessor than should
//   kCausal         keys after the query are invisible
//   kPastKeys       the tensors of keys and values have rows behind the keys of a call
//   kWindow         optional; 0 = none, as it must be with ranges
//
// Position, Score, Epilogue: see mma_flash.cuh
//
//===----------------------------------------------------------------------===//
#pragma once

#include "attention/tensor_flash.cuh"
#include "attention/wgmma_flash_copies.cuh"
#include "attention/wgmma_flash_shape.cuh"
#include "attention/wgmma_flash_sums.cuh"
#include "device/barrier.cuh"
#include "device/block.cuh"
#include "device/cluster.cuh"
#include "device/grid.cuh"
#include "device/shared_product.cuh"
#include "device/tensor_copy.cuh"
#include "device/warp.cuh"
#include "device/warpgroup.cuh"
#include "gemm/ring_place.cuh"

namespace kiln {

/// The work of one thread on a tile of queries.
template <class Config, class T> struct WgmmaFlash {
  using Shape = WgmmaFlashShape<Config>;
  using Ring = RingPlace<Shape::kStages>;
  static constexpr int kKeys = Shape::kKeys;
  /// The tensor cores multiply the weights of one part of a tile's keys while the warp computes those of the other.
  static constexpr int kParts = 2, kPartSteps = Shape::kKeySteps / kParts, kPartTiles = Shape::kTilesOfKeys / kParts;

  /// Where the block is in its rings.
  struct Progress {
    int step;        // of the block
    Ring before, at; // of the last step and the next one
    u32 clears;      // of values past the last key
  };

  const WgmmaFlashCopies<Config> &copies;
  const WgmmaFlashTask<Config> task;
  const int queriesOf; // the tile of queries in shared memory
  const float scale;   // factor of scores, before the power of two
  WgmmaFlashStorage<Config> &shared = copies.shared;
  const FlashTile<Config> tile = task.tile;
  const int firstKey = task.firstKey, steps = task.steps();
  /// The first query of the warpgroup, and of the warp, in the tile.
  const int warpgroupQuery = int(warpgroupIndex()) * Shape::kWarpgroupQueries;
  const int warpQuery = warpgroupQuery + int(warpIndex()) % 4 * Shape::kWarpQueries;

  MmaA weights[kParts][kPartSteps];
  WarpgroupSums<Shape::kTilesOfKeys> scores;
  WgmmaFlashSums<Config> sums;

  /// This warp no longer reads the stage.
  KILN_DEVICE static void release(SharedBarrier &empty) {
    if (laneIndex() == 0)
      arrive(empty);
  }

  //===--- products

  /// scores = queries · keys^T, of the tile at this place when it has arrived.
  KILN_DEVICE void startScores(Ring at) {
    waitBarrier(shared.ofKeys.full[at.stage], at.parity);
    fenceProducts(scores);
    const SharedOperand queries(SharedAddress(shared.queries[queriesOf]) + u32(warpgroupQuery) * kSwizzledRowBytes),
        keys(SharedAddress(shared.keys[at.stage]));
#pragma unroll
    for (int i = 0; i < Shape::kDepthSteps; ++i)
      startSharedProduct<T>(scores, queries + u32(i / 4 * Shape::kQueries) * kSwizzledRowBytes,
                            keys + u32(i / 4 * kKeys) * kSwizzledRowBytes, u32(i % 4) * 2 * kChunkBytes, i > 0);
    commitProducts();
  }

  /// out += weights · values, of a part of the keys. What the part before uses must not be touched.
  template <int kPart> KILN_DEVICE void startOutput(Ring at) {
    constexpr int kWhole = Shape::kTilesOfDims / 8 * 8;
    if constexpr (kPart == 0)
      fenceProducts(sums.out, weights[kPart]);
    else
      fenceProducts(weights[kPart]);
    const SharedAddress values(shared.values[at.stage]);
#pragma unroll
    for (int i = 0; i < kPartSteps; ++i) {
      const u32 row = u32(kPart * kPartSteps + i) * 16;
      const MmaA &left = weights[kPart][i];
#pragma unroll
      for (int n = 0; n < kWhole; n += 8)
        startProduct<T, RightRows::Depth, 8>(sums.out, n, left, values, (u32(n / 8 * kKeys) + row) * kSwizzledRowBytes,
                                             true);
#pragma unroll
      for (int n = kWhole; n < Shape::kTilesOfDims; n += 2)
        startProduct<T, RightRows::Depth, 2>(
            sums.out, n, left, values, (u32(n / 8 * kKeys) + row) * kSwizzledRowBytes + u32(n % 8) * kChunkBytes, true);
    }
  }

  //===--- steps

  /// The steps whose keys are visible to all queries of the warp: [first, end).
  struct Steps {
    int first, end;
  };
  KILN_DEVICE Steps wholeSteps() const {
    const int first = tile.firstVisible(warpQuery + Shape::kWarpQueries - 1) - firstKey;
    return {ceilDiv(max(first, 0), kKeys), (tile.visibleEnd(warpQuery) - firstKey) / kKeys};
  }

  /// Turns exponents of a part of the keys into weights.
  template <int kPart> KILN_DEVICE void takeWeights(MmaSums (&exponents)[Shape::kTilesOfKeys]) {
    sums.rows.template exponentiate<kPart * kPartTiles, kPartTiles>(exponents);
#pragma unroll
    for (int i = 0; i < kPartSteps; ++i)
      weights[kPart][i] = FlashRows::rounded<T>(exponents, kPart * kPartSteps + i);
  }

  /// Whether this thread puts another tile in place of that of a step. With a warp for copies it must be plain that
  /// none does: by a branch that is never taken ptxas loses its uniform registers.
  KILN_DEVICE static bool refills(int step, int refillEnd) {
    return Shape::kCopyWarps == 0 && step >= 0 && step < refillEnd;
  }

  /// Turns the scores of a step of the task into weights and starts to multiply the values, while the products for the
  /// next scores run; kIsLast: there are none. `first` is the range's first step.
  template <bool kIsLast>
  KILN_DEVICE void attend(int step, int first, Progress &progress, Steps whole, int refillEnd) {
    const Ring at = progress.at, before = progress.before;
    if (step >= whole.end || step < whole.first)
      FlashRows::mask(scores.tiles, tile, warpQuery, firstKey + step * kKeys);
    MmaSums exponents[Shape::kTilesOfKeys];
    float factors[2] = {1, 1};
    // References seldom rise, and lanes need not exchange their largest scores to find that out.
    const FlashRows::Largest largest = FlashRows::largestOf(scores.tiles);
    const bool rises = any(sums.rows.rises(largest, scale));
    if (rises) {
      sums.rows.raise(largest, scale, factors, sums.shifts);
      sums.rows.scaleSums(factors);
    }
    FlashRows::takeExponents(exponents, scores.tiles, scale, sums.shifts);
    pinRegisters(exponents); // keeps the compiler from delaying this until the products in flight have finished
    waitProducts<0>(sums.out);
    receive(sums.out);
    if (step > first)
      release(shared.ofValues.empty[before.stage]);
    if (rises && step > first)
      FlashRows::scaleOutput(sums.out.tiles, factors);
    if constexpr (!kIsLast) {
      startScores(at.next());
      if (refills(progress.step, refillEnd))
        copies.refillKeys(at, progress.step);
    }
    takeWeights<0>(exponents);
    waitBarrier(shared.ofValues.full[at.stage], at.parity);
    if constexpr (kIsLast && Config::kPastKeys)
      if (step + 1 == steps)
        clearPastKeys(progress);
    startOutput<0>(at);
    takeWeights<1>(exponents);
    startOutput<1>(at);
    commitProducts();
    if constexpr (!kIsLast || Shape::kWays > 1)
      if (refills(progress.step - 1, refillEnd))
        copies.refillValues(before, progress.step - 1);
    if constexpr (!kIsLast) {
      waitProducts<1>(scores);
      receive(scores);
      release(shared.ofKeys.empty[at.next().stage]);
    }
    ++progress.step;
    progress.before = at;
    progress.at.advance();
  }

  /// Zeros for the values past the last key, for the warpgroups that multiply the last tile. The last warpgroup stores
  /// them.
  KILN_DEVICE void clearPastKeys(Progress &progress) const {
    const Ring at = progress.at;
    constexpr int kRowsAtOnce = int(kWarpgroupSize / kRowChunks);
    const int keys = max(min(task.keyEnd, tile.keyEnd) - firstKey - (steps - 1) * kKeys, 0);
    if (keys == kKeys)
      return;
    if (copies.isLastWarpgroup()) {
      const int thread = int(threadIndex() % kWarpgroupSize);
      for (int row = keys + thread / int(kRowChunks); row < kKeys; row += kRowsAtOnce)
#pragma unroll
        for (int slab = 0; slab < HeadTile<Shape::kHeadSize>::kSlabs; ++slab)
          storeShared(reinterpret_cast<T *>(shared.values[at.stage] + (slab * kKeys + row) * int(kSwizzledRowBytes) +
                                            u32(thread) % kRowChunks * kChunkBytes),
                      Vec<float, 8>{});
      fenceAsyncCopies();
      if constexpr (!Shape::kSyncThreadsMeets)
        arrive(shared.cleared);
    }
    if constexpr (Shape::kSyncThreadsMeets) {
      syncThreads();
    } else {
      waitBarrier(shared.cleared, progress.clears++ & 1);
      syncWarp(); // for the emulator, to which the barrier orders warps, not the lanes of one
    }
  }

  /// Passes on the tiles of keys that only others see.
  KILN_DEVICE void skip(int ownSteps, Ring at) const {
    for (int step = ownSteps; step < steps; ++step, at.advance()) {
      waitBarrier(shared.ofKeys.full[at.stage], at.parity);
      release(shared.ofKeys.empty[at.stage]);
      waitBarrier(shared.ofValues.full[at.stage], at.parity);
      release(shared.ofValues.empty[at.stage]);
    }
  }

  /// All tiles of keys of the task. kRanges: they may be of several ranges.
  template <bool kRanges> KILN_DEVICE void run(Progress &progress) {
    waitBarrier(shared.queriesFull[queriesOf], 0);
    const int end = tile.visibleEnd(warpgroupQuery + Shape::kWarpgroupQueries - 1);
    // The first one is masked if it has no key.
    const int ownSteps = min(max(1, ceilDiv(end - firstKey, kKeys)), steps);
    const Steps whole = wholeSteps();
    const int refillEnd = copies.refillEnd();
    startScores(progress.at);
    waitProducts<0>(scores);
    receive(scores);
    release(shared.ofKeys.empty[progress.at.stage]);
    int step = 0, first = 0;
    if constexpr (kRanges) {
      while (step < ownSteps - 1) {
        const int end = min(first + Shape::kRangeSteps, ownSteps - 1);
#pragma unroll 1
        for (; step < end; ++step)
          attend<false>(step, first, progress, whole, refillEnd);
        if (step == first + Shape::kRangeSteps) {
          keepRange(first, progress);
          first = step;
        }
      }
    } else {
#pragma unroll 1
      for (; step < ownSteps - 1; ++step)
        attend<false>(step, first, progress, whole, refillEnd);
    }
    attend<true>(step, first, progress, whole, refillEnd);
    sums.normalize(); // while the last products run
    waitProducts<0>(sums.out);
    receive(sums.out);
    if constexpr (Shape::kWarpgroups > 1 || Shape::kWays > 1)
      release(shared.ofValues.empty[progress.before.stage]);
    if constexpr (Shape::kWarpgroups > 1)
      skip(ownSteps, progress.at);
    if constexpr (Shape::kWays > 1)
      if (refills(progress.step - 1, refillEnd))
        copies.refillKeys(progress.before, progress.step - 1); // for the next task
    if constexpr (kRanges)
      if (first > 0)
        sums.template addOther</*kIsEarlier=*/true>(shared, scale);
  }

  /// Between two ranges: adds the one that begins at `first` to those before it, in shared memory.
  KILN_DEVICE void keepRange(int first, const Progress &progress) {
    waitProducts<0>(sums.out);
    receive(sums.out);
    release(shared.ofValues.empty[progress.before.stage]);
    if (first > 0)
      sums.template addOther</*kIsEarlier=*/true>(shared, scale);
    sums.keep(shared);
    sums = {};
  }

  template <class Epilogue> KILN_DEVICE void finish(const Epilogue &epilogue) {
    sums.finish(tile, warpQuery, epilogue);
  }
};

/// The kernel's body: `queries` tokens and `keys` keys a head, keys ≥ 1.
template <class Config, class T, class Position, class Score, class Epilogue>
KILN_DEVICE void wgmmaFlash(int queries, int keys, const TensorMap &query, const TensorMap &key, const TensorMap &value,
                            const Position &position, const Score &, const Epilogue &epilogue) {
  auto &shared = dynamicShared<WgmmaFlashStorage<Config>>();
  const WgmmaFlashMaps maps = {query, key, value};
  using Copies = WgmmaFlashCopies<Config>;
  using Shape = WgmmaFlashShape<Config>;
  using Flash = WgmmaFlash<Config, T>;
  const int rank = Shape::kWays > 1 ? int(clusterRank()) : 0;
  allowDependents();
  if (Copies::areOfThisThread()) {
    maps.prefetch();
    Copies::initBarriers(shared);
    if constexpr (Shape::kWays > 1)
      if (rank == 0)
        WgmmaFlashSums<Config>::expectOther(shared);
  }
  // The others know the barriers, also those of the other block.
  if constexpr (Shape::kWays > 1) {
    syncWarp();
    arriveClusterAtStart();
    waitCluster();
  } else {
    syncThreads();
  }
  waitForDependencies();
  const Copies copies = {shared, maps, WgmmaFlashTasks<Config>::of(queries, keys, position, rank)};
  if (Copies::areOfThisThread())
    copies.start();
  if (Shape::kCopyWarps > 0 && threadIndex() >= u32(Shape::kThreads)) {
    if (Copies::areOfThisThread())
      copies.refillAll();
    return;
  }
  typename Flash::Progress progress = {};
  Flash later{copies, copies.tasks[0], 0, flashScale<Score>()};
  later.template run<(Config::kRanges > 1 && Shape::kWays == 1)>(progress);
  if constexpr (Shape::kWays > 1) {
    if (rank > 0) {
      later.sums.handOver(shared);
      Flash earlier{copies, copies.tasks[1], 1, flashScale<Score>()};
      earlier.template run<true>(progress);
      earlier.finish(epilogue);
      return;
    }
    later.sums.addHandedOver(shared, later.scale);
  }
  later.finish(epilogue);
}

} // namespace kiln
