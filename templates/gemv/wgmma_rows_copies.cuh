//===- wgmma_rows_copies.cuh - the producer of wgmma_rows.cuh -----------------------===//
//
// One thread of a block copies steps of both operands into the rings of the warpgroups: the weight's first ones before
// it waits for the kernels before, and the rows, which these write, behind.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "device/barrier.cuh"
#include "device/base.cuh"
#include "device/grid.cuh"
#include "device/index.cuh"
#include "device/shared.cuh"
#include "device/tensor_copy.cuh"
#include "gemm/ring_place.cuh"

namespace kiln {

/// Rows: the kernel's WgmmaRows.
template <class Rows> struct WgmmaRowsCopies {
  using Shape = typename Rows::Shape;
  static constexpr int kGroups = Shape::kGroups, kStages = Shape::kStages;

  const Rows &thread;

  /// Copies the weight's first steps, as many as there are stages, before anything that another kernel may still write.
  KILN_DEVICE void copyFirstOfWeight() const {
    for (int step = 0; step < kStages; ++step)
      for (int group = 0; group < kGroups; ++group)
        if (step < thread.steps(group))
          copyWeight(thread.firstTile, group, step, step);
  }
  /// Copies all else: the rows of these steps, and all further steps of the tiles.
  KILN_DEVICE void copyRest() const {
    prepareRows();
    waitForDependencies();
    if constexpr (Shape::kReadsRows)
      waitBarrier(thread.shared.mail.asked, 0); // its loads would queue behind the copies
    for (int step = 0; step < (Shape::kCopiesRowsAtOnce ? 1 : kStages); ++step)
      for (int group = 0; group < kGroups; ++group)
        if (step < thread.steps(group))
          copyRows(group, step, step);
    auto ring = RingPlace<kStages>::after(kStages);
    copySteps(thread.firstTile, kStages, ring);
    for (int tile = thread.firstTile + 1; tile < thread.firstTile + thread.tiles; ++tile)
      copySteps(tile, 0, ring);
  }

private:
  /// Copies the rows' elements of a step, or those of the range with its first step.
  KILN_DEVICE void copyRows(int group, int step, int stage) const {
    if constexpr (!Shape::kCopiesRowsAtOnce)
      copyBox(thread.stageOfRows(group, stage), thread.a,
              {(thread.firstStep(group) + step) * Shape::kStep, thread.firstRow}, thread.shared.full[group][stage]);
    else if (step == 0)
      copyBox(thread.stageOfRows(group, 0), thread.a, {0, thread.firstRow, thread.firstStep(group)},
              thread.shared.rowsFull[group]);
  }
  /// What of the copies of rows need not wait for them: instructions behind the wait are on the critical path.
  KILN_DEVICE void prepareRows() const {
    prefetchMap(thread.a);
    if constexpr (Shape::kCopiesRowsAtOnce)
      for (int group = 0; group < kGroups; ++group)
        arriveExpecting(thread.shared.rowsFull[group], u32(thread.copiedRows * Shape::kMostSteps) * Shape::kRowBytes);
  }
  /// Expects the step's bytes of a tile of the weight, and those of the rows that come with it, and copies the
  /// weight's.
  KILN_DEVICE void copyWeight(int tile, int group, int step, int stage) const {
    const u32 ofRows = Shape::kCopiesRowsAtOnce ? 0 : u32(thread.copiedRows) * Shape::kRowBytes;
    arriveExpecting(thread.shared.full[group][stage], ofRows + Shape::kBytesB);
    copyBox(SharedAddress(thread.shared.b[group][stage]), thread.weight,
            {(thread.firstStep(group) + step) * Shape::kStep, 0, 0, 0, tile * (Shape::kN / 32)},
            thread.shared.full[group][stage]);
  }

  /// Copies the steps of a tile from `first` on. Rows that come by one copy are there for all tiles.
  KILN_DEVICE void copySteps(int tile, int first, RingPlace<kStages> &ring) const {
    for (int step = first; step < Shape::kMostSteps; ++step) {
      for (int group = 0; group < kGroups; ++group)
        if (step < thread.steps(group)) {
          waitBarrier(thread.shared.empty[group][ring.stage], ring.parity ^ 1);
          copyWeight(tile, group, step, int(ring.stage));
          if constexpr (!Shape::kCopiesRowsAtOnce)
            copyRows(group, step, int(ring.stage));
        }
      ring.advance();
    }
  }
};

} // namespace kiln
