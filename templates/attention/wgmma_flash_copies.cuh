//===- wgmma_flash_copies.cuh - the copies of wgmma_flash.cuh ------------------------===//
//
// One thread copies the block's queries, and its tiles of keys and values into two rings of stages, by TMA: a box is 64
// elements of so many rows of a head. Without a warp for copies, this thread multiplies like the others, so it starts a
// copy only where it has found out itself, a while ago, that the stage is free; then the other warps have most likely
// come there, too.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "attention/wgmma_flash_shape.cuh"
#include "device/barrier.cuh"
#include "device/base.cuh"
#include "device/index.cuh"
#include "device/tensor_copy.cuh"
#include "gemm/ring_place.cuh"

namespace kiln {

/// The tensors of a call, as maps of rank 3.
struct WgmmaFlashMaps {
  const TensorMap &query, &key, &value;

  KILN_DEVICE void prefetch() const {
    prefetchMap(query);
    prefetchMap(key);
    prefetchMap(value);
  }
};

template <class Config> struct WgmmaFlashCopies {
  using Shape = WgmmaFlashShape<Config>;
  using Ring = RingPlace<Shape::kStages>;

  WgmmaFlashStorage<Config> &shared;
  const WgmmaFlashMaps maps;
  const WgmmaFlashTasks<Config> tasks;
  const int steps = tasks.steps(); // tiles of keys

  /// Of the block; one thread calls it.
  KILN_DEVICE static void initBarriers(WgmmaFlashStorage<Config> &shared) {
    for (SharedBarrier &full : shared.queriesFull)
      initBarrier(full, 1);
    if (!Shape::kSyncThreadsMeets && Config::kPastKeys)
      initBarrier(shared.cleared, kWarpgroupSize);
    for (int i = 0; i < Shape::kStages; ++i) {
      initBarrier(shared.ofKeys.full[i], 1);
      initBarrier(shared.ofKeys.empty[i], Shape::kWarps);
      initBarrier(shared.ofValues.full[i], 1);
      initBarrier(shared.ofValues.empty[i], Shape::kWarps);
    }
    if constexpr (Shape::kWays > 1)
      initBarrier(shared.other.handedOver, 1);
    fenceBarriers();
  }

  /// The first thread of those that have all tiles of keys. It copies, or else a warp of its own does.
  static constexpr u32 kLastThread = u32(Shape::kWarpgroups - 1) * kWarpgroupSize;
  static constexpr u32 kThread = Shape::kCopyWarps > 0 ? u32(Shape::kThreads) : kLastThread;
  KILN_DEVICE static bool areOfThisThread() { return threadIndex() == kThread; }
  KILN_DEVICE static bool isLastWarpgroup() { return threadIndex() / kWarpgroupSize == kLastThread / kWarpgroupSize; }
  /// The first step of which this thread, one of those that multiply, does not refill the stages.
  KILN_DEVICE int refillEnd() const { return Shape::kCopyWarps == 0 && areOfThisThread() ? steps - Shape::kStages : 0; }

  /// The queries, and as many steps as there are stages.
  KILN_DEVICE void start() const {
#pragma unroll
    for (int i = 0; i < Shape::kWays; ++i)
      if (i == 0 || tasks[i].steps() > 0)
        copyTile<Shape::kQueries>(shared.queries[i], maps.query, tasks[i].tile.firstQuery, shared.queriesFull[i]);
    for (int step = 0; step < min(steps, Shape::kStages); ++step) {
      copyKeys(u32(step), step);
      copyValues(u32(step), step);
    }
  }

  /// Puts the keys or values of a later step in place of those of `step`, which were at `at`.
  KILN_DEVICE void refillKeys(Ring at, int step) const {
    waitBarrier(shared.ofKeys.empty[at.stage], at.parity);
    copyKeys(at.stage, step + Shape::kStages);
  }
  KILN_DEVICE void refillValues(Ring at, int step) const {
    waitBarrier(shared.ofValues.empty[at.stage], at.parity);
    copyValues(at.stage, step + Shape::kStages);
  }

  /// All steps behind those of start(), by a thread of the warp for copies.
  KILN_DEVICE void refillAll() const {
    Ring at = {0, 0};
    for (int step = 0; step < steps - Shape::kStages; ++step, at.advance()) {
      refillKeys(at, step);
      refillValues(at, step);
    }
  }

private:
  KILN_DEVICE void copyKeys(u32 stage, int step) const {
    copyTile<Shape::kKeys>(shared.keys[stage], maps.key, tasks.key(step), shared.ofKeys.full[stage]);
  }
  KILN_DEVICE void copyValues(u32 stage, int step) const {
    copyTile<Shape::kKeys>(shared.values[stage], maps.value, tasks.key(step), shared.ofValues.full[stage]);
  }

  template <int kRows>
  KILN_DEVICE void copyTile(const void *to, const TensorMap &from, int row, SharedBarrier &full) const {
    using Tile = HeadTile<Shape::kHeadSize>;
    const FlashTile<Config> &tile = tasks[0].tile;
    const int head = tile.b * (int(gridBlocksX()) / Shape::kWays) + tile.h; // of those of all sequences
    arriveExpecting(full, Tile::bytes(kRows));
#pragma unroll
    for (int slab = 0; slab < Tile::kSlabs; ++slab)
      copyBox(SharedAddress(to) + u32(slab * kRows) * kSwizzledRowBytes, from, {slab * 64, row, head}, full);
  }
};

} // namespace kiln
