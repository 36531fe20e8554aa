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
// Ways: with few blocks, the steps of the longest one are what takes the time. So kWays warpgroups may share a tile of
// queries, each an equal part of every tile of keys, with a softmax of its own. In the end the first one merges them
// (as flash decoding does), in order.
//
// Positions and visibility are those of mma_flash.cuh. Tiles that no query of the block sees are skipped, those that no
// query of a warpgroup sees by that warpgroup. Sums and products are in a fixed order.
//
// Maps: of queries, keys and values a tensor of rank 3, extents [kHeadSize, tokens, heads of all sequences], box
// [64, kTileQueries or kTileKeys, 1]. Rows past the end are zero. With kPastKeys there may be rows between the last key
// that a query sees and the end, in which anything may be: their weights are 0, and the threads put zeros in place of
// their values, in the last tile.
//
// Launch: grid (heads, batch, ceildiv(queries, kTileQueries)), block 2 · kTileQueries · kWays + 32 · (kRoles - 1);
// the blocks with the most keys first.
//
// Shared memory, all of it dynamic: 128 · ceildiv(kHeadSize, 64) · (kTileQueries + 2 · kStages · kTileKeys) bytes, in
// the layout that tensor_flash.cuh documents, and 32 · kStages + 8 for barriers, rounded up to 1024; or kShared bytes,
// if these are more.
//
// Config:
//   kHeadSize       a multiple of 16, up to 128
//   kTileQueries    a multiple of 64
//   kTileKeys       of all ways; a way has 64 or 128
//   kWays           1 or 2
//   kRoles          1: all warps multiply; 2, with one way: another one copies
//   kStages         2 or more
//   kShared         bytes that the block takes at least, so that no more blocks share a multiprocessor than should
//   kCausal         keys after the query are invisible
//   kPastKeys       the tensors of keys and values have rows behind the keys of a call
//   kWindow         optional; 0 = none
//
// Position, Score, Epilogue: see mma_flash.cuh
//
//===----------------------------------------------------------------------===//
#pragma once

#include "attention/tensor_flash.cuh"
#include "attention/wgmma_flash_copies.cuh"
#include "attention/wgmma_flash_shape.cuh"
#include "device/barrier.cuh"
#include "device/block.cuh"
#include "device/grid.cuh"
#include "device/shared_product.cuh"
#include "device/tensor_copy.cuh"
#include "device/warp.cuh"
#include "device/warpgroup.cuh"
#include "gemm/ring_place.cuh"

namespace kiln {

/// The work of one thread on its block's tile of queries.
template <class Config, class T> struct WgmmaFlash {
  using Shape = WgmmaFlashShape<Config>;
  using Ring = RingPlace<Shape::kStages>;
  static constexpr int kKeys = Shape::kKeys;
  /// The tensor cores multiply the weights of one part of a tile's keys while the warp computes those of the other.
  static constexpr int kParts = 2, kPartSteps = Shape::kKeySteps / kParts, kPartTiles = Shape::kTilesOfKeys / kParts;

  WgmmaFlashStorage<Config> &shared;
  const WgmmaFlashCopies<Config> &copies;
  const float scale; // factor of scores, before the power of two
  const FlashTile<Config> tile;
  const int firstKey = copies.firstKey, steps = copies.steps;
  /// The first query of the warpgroup, and of the warp, in the tile.
  const int warpgroupQuery = int(warpgroupIndex()) / Shape::kWays * Shape::kWarpgroupQueries;
  const int warpQuery = warpgroupQuery + int(warpIndex()) % 4 * Shape::kWarpQueries;

  MmaA weights[kParts][kPartSteps];
  WarpgroupSums<Shape::kTilesOfKeys> scores;
  WarpgroupSums<Shape::kTilesOfDims> out = {};
  FlashRows rows;
  float shifts[2] = {0, 0}; // of exponents below the scores, by the references
  FlashRows::Normalization normalization;

  KILN_DEVICE static int way() { return int(warpgroupIndex()) % Shape::kWays; }
  /// The first key of the way in a tile of keys.
  KILN_DEVICE static int wayKey() { return way() * Shape::kWayKeys; }

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
    const SharedOperand queries(SharedAddress(shared.queries) + u32(warpgroupQuery) * kSwizzledRowBytes),
        keys(SharedAddress(shared.keys[at.stage]) + u32(wayKey()) * kSwizzledRowBytes);
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
      fenceProducts(out, weights[kPart]);
    else
      fenceProducts(weights[kPart]);
    const SharedAddress values = SharedAddress(shared.values[at.stage]) + u32(wayKey()) * kSwizzledRowBytes;
#pragma unroll
    for (int i = 0; i < kPartSteps; ++i) {
      const u32 row = u32(kPart * kPartSteps + i) * 16;
      const MmaA &left = weights[kPart][i];
#pragma unroll
      for (int n = 0; n < kWhole; n += 8)
        startProduct<T, RightRows::Depth, 8>(out, n, left, values, (u32(n / 8 * kKeys) + row) * kSwizzledRowBytes,
                                             true);
#pragma unroll
      for (int n = kWhole; n < Shape::kTilesOfDims; n += 2)
        startProduct<T, RightRows::Depth, 2>(
            out, n, left, values, (u32(n / 8 * kKeys) + row) * kSwizzledRowBytes + u32(n % 8) * kChunkBytes, true);
    }
  }

  //===--- steps

  /// The steps whose keys are visible to all queries of the warp: [first, end).
  struct Steps {
    int first, end;
  };
  KILN_DEVICE Steps wholeSteps() const {
    const int first = tile.firstVisible(warpQuery + Shape::kWarpQueries - 1) - firstKey - wayKey();
    const int keys = tile.visibleEnd(warpQuery) - firstKey - wayKey();
    return {ceilDiv(max(first, 0), kKeys), (keys + kKeys - Shape::kWayKeys) / kKeys};
  }

  /// Turns exponents of a part of the keys into weights.
  template <int kPart> KILN_DEVICE void takeWeights(MmaSums (&exponents)[Shape::kTilesOfKeys]) {
    rows.template exponentiate<kPart * kPartTiles, kPartTiles>(exponents);
#pragma unroll
    for (int i = 0; i < kPartSteps; ++i)
      weights[kPart][i] = FlashRows::rounded<T>(exponents, kPart * kPartSteps + i);
  }

  /// Turns the scores of a step into weights and starts to multiply the values, while the products for the next scores
  /// run; kIsLast: there are none. `before` is the place of the step before.
  template <bool kIsLast> KILN_DEVICE void attend(int step, Ring before, Ring at, Steps whole, int refillEnd) {
    if (step >= whole.end || step < whole.first)
      FlashRows::mask(scores.tiles, tile, warpQuery, firstKey + step * kKeys + wayKey());
    MmaSums exponents[Shape::kTilesOfKeys];
    float factors[2] = {1, 1};
    // References seldom rise, and lanes need not exchange their largest scores to find that out.
    const FlashRows::Largest largest = FlashRows::largestOf(scores.tiles);
    const bool rises = any(rows.rises(largest, scale));
    if (rises) {
      rows.raise(largest, scale, factors, shifts);
      rows.scaleSums(factors);
    }
    FlashRows::takeExponents(exponents, scores.tiles, scale, shifts);
    pinRegisters(exponents); // keeps the compiler from delaying this until the products in flight have finished
    waitProducts<0>(out);
    receive(out);
    if (step > 0)
      release(shared.ofValues.empty[before.stage]);
    if (rises && step > 0)
      FlashRows::scaleOutput(out.tiles, factors);
    if constexpr (!kIsLast) {
      startScores(at.next());
      if (step < refillEnd)
        copies.refillKeys(at, step);
    }
    takeWeights<0>(exponents);
    waitBarrier(shared.ofValues.full[at.stage], at.parity);
    if constexpr (kIsLast && Config::kPastKeys)
      if (step + 1 == steps)
        clearPastKeys(at);
    startOutput<0>(at);
    takeWeights<1>(exponents);
    startOutput<1>(at);
    commitProducts();
    if constexpr (!kIsLast) {
      if (step > 0 && step - 1 < refillEnd)
        copies.refillValues(before, step - 1);
      waitProducts<1>(scores);
      receive(scores);
      release(shared.ofKeys.empty[at.next().stage]);
    }
  }

  /// Zeros for the values past the last key, for the warpgroups that multiply the last tile. The last warpgroup stores
  /// them.
  KILN_DEVICE void clearPastKeys(Ring at) const {
    constexpr int kRowsAtOnce = int(kWarpgroupSize / kRowChunks);
    const int keys = tile.keyEnd - firstKey - (steps - 1) * kKeys;
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
      waitBarrier(shared.cleared, 0);
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

  /// All tiles of keys.
  KILN_DEVICE void run() {
    waitBarrier(shared.queriesFull, 0);
    const int end = tile.visibleEnd(warpgroupQuery + Shape::kWarpgroupQueries - 1);
    // The first one is masked if it has no key.
    const int ownSteps = min(max(1, ceilDiv(end - firstKey - wayKey(), kKeys)), steps);
    const Steps whole = wholeSteps();
    const int refillEnd = copies.refillEnd();
    Ring before = {0, 0}, at = {0, 0};
    startScores(at);
    waitProducts<0>(scores);
    receive(scores);
    release(shared.ofKeys.empty[at.stage]);
#pragma unroll 1
    for (int i = 0; i < ownSteps - 1; ++i) {
      attend<false>(i, before, at, whole, refillEnd);
      before = at;
      at.advance();
    }
    attend<true>(ownSteps - 1, before, at, whole, refillEnd);
    if constexpr (Shape::kWays == 1)
      normalization = rows.normalization(); // while the last products run
    waitProducts<0>(out);
    receive(out);
    if constexpr (Shape::kWarpgroups > 1) {
      release(shared.ofValues.empty[at.stage]);
      skip(ownSteps, at.next());
    }
  }

  /// Adds the sums of the other ways to those of the first one.
  KILN_DEVICE void mergeWays() {
    auto &others = shared.ways();
    const int thread = warpgroupQuery * 2 + int(threadIndex() % kWarpgroupSize);
    syncThreads();
    if (way() > 0) {
#pragma unroll
      for (int i = 0; i < Shape::kTilesOfDims * 4; ++i)
        others.out[way() - 1][i][thread] = out.tiles[i / 4].values[i % 4];
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        others.largest[way() - 1][half][thread] = rows.largest[half];
        others.sums[way() - 1][half][thread] = rows.sums[half];
      }
    }
    syncThreads();
    if (way() > 0)
      return;
#pragma unroll
    for (int other = 0; other < Shape::kWays - 1; ++other) {
      const FlashRows more = {{others.largest[other][0][thread], others.largest[other][1][thread]},
                              {others.sums[other][0][thread], others.sums[other][1][thread]}};
      float own[2], theirs[2];
      rows.merge(more, scale, own, theirs);
#pragma unroll
      for (int i = 0; i < Shape::kTilesOfDims * 4; ++i) {
        float &value = out.tiles[i / 4].values[i % 4];
        value = fma(others.out[other][i][thread], theirs[i % 4 / 2], value * own[i % 4 / 2]);
      }
    }
  }

  template <class Epilogue> KILN_DEVICE void finish(const Epilogue &epilogue) {
    if constexpr (Shape::kWays > 1) {
      mergeWays();
      if (way() > 0)
        return;
      normalization = rows.normalization();
    }
    if constexpr (Shape::kTilesOfDims % 4 == 0)
      FlashRows::finishWide(out.tiles, normalization, tile, warpQuery, epilogue);
    else
      FlashRows::finish(out.tiles, normalization, tile, warpQuery, epilogue);
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
  allowDependents();
  if (Copies::areOfThisThread()) {
    maps.prefetch();
    Copies::initBarriers(shared);
  }
  syncThreads(); // the others know the barriers
  waitForDependencies();
  const FlashTile<Config> tile = flashTile<Config>(queries, keys, position);
  const int firstKey = tile.firstKey(), steps = ceilDiv(tile.keyEnd - firstKey, Config::kTileKeys);
  const Copies copies = {shared, maps, tile.b * int(gridBlocksX()) + tile.h, firstKey, steps};
  if (Copies::areOfThisThread())
    copies.start(tile.firstQuery);
  if (Shape::kCopyWarps > 0 && threadIndex() >= u32(Shape::kThreads)) {
    if (Copies::areOfThisThread())
      copies.refillAll();
    return;
  }
  WgmmaFlash<Config, T> thread{shared, copies, flashScale<Score>(), tile};
  thread.run();
  thread.finish(epilogue);
}

} // namespace kiln
