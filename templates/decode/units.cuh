//===- units.cuh - the weights of a block on their way to its warps -------------------===//
//
// A producer thread copies units (decode/shape.cuh) into a ring of stages, in the order in which the block needs them,
// as long as stages are free: it never waits for what other blocks compute, so weights stream while they do. Warps take
// units in the same order; a warp takes a part of 8 columns of 64 of the depth into registers, and gives the stage
// back when all warps have.
//
// A part in shared memory is 8 rows of 128 bytes, a column each, whose chunks are swizzled; in registers it is the
// right operand of four products of 16 of the depth (tensor_core.cuh).
//
//===----------------------------------------------------------------------===//
#pragma once

#include "decode/shape.cuh"
#include "device/barrier.cuh"
#include "device/base.cuh"
#include "device/index.cuh"
#include "device/shared.cuh"
#include "device/tensor_copy.cuh"
#include "device/tensor_core.cuh"
#include "device/warp.cuh"
#include "gemm/ring_place.cuh"

namespace kiln {

/// A warp's part of a unit.
struct UnitPart {
  u32 words[2][4];

  /// The right operand of one of the four products.
  KILN_DEVICE MmaB operand(int step) const {
    return {{words[step / 2][step % 2 * 2], words[step / 2][step % 2 * 2 + 1]}};
  }
};

/// Rows of 64 of the depth as the left operand of the four products: lane 4 · row + place has row `row`, of 8.
struct RowPart {
  MmaA steps[4];

  /// Sets elements 16 step + 8 half + 2 place and the next of the lane's row, rounded to T.
  template <class T> KILN_DEVICE void set(int step, int half, const Vec<float, 2> &values) {
    steps[step].words[2 * half] = pairFromFloat<T>(values[0], values[1]);
    steps[step].words[2 * half + 1] = 0; // rows 8 to 15
  }
};

/// Sums of products of rows and a part: lane 4 · row + place has columns 2 place and the next of the row.
template <class T> struct PartSums {
  MmaSums sums[2] = {};

  KILN_DEVICE void add(const RowPart &rows, const UnitPart &part) {
#pragma unroll
    for (int step = 0; step < 4; ++step)
      multiplyAdd<T>(sums[step % 2], rows.steps[step], part.operand(step));
  }
  KILN_DEVICE Vec<float, 2> values() const {
    return {sums[0].values[0] + sums[1].values[0], sums[0].values[1] + sums[1].values[1]};
  }
};

/// The producer's side of the ring.
template <class Config, class T> struct UnitCopies {
  using Shape = DecodeShape<Config, T>;

  DecodeStorage<Config, T> &shared;
  u32 copied = 0;

  template <int kRank> KILN_DEVICE void copy(const TensorMap &weight, const int (&at)[kRank]) {
    const auto place = RingPlace<Shape::kStages>::after(copied);
    if (copied++ >= Shape::kStages)
      waitBarrier(shared.empty[place.stage], place.parity ^ 1);
    arriveExpecting(shared.full[place.stage], Shape::kUnitBytes);
    copyBox(SharedAddress(shared.ring[place.stage]), weight, at, shared.full[place.stage]);
  }
  /// 8 columns of the whole depth. The map has rank 3: 64 of the depth, the columns, the depth's multiples of 64.
  KILN_DEVICE void copyWide(const TensorMap &weight, int col) { copy(weight, {0, col, 0}); }
  /// 64 of the depth, of as many columns as a block has.
  KILN_DEVICE void copyNarrow(const TensorMap &weight, int depth, int col) { copy(weight, {depth, col}); }
};

/// A warp's side of the ring.
template <class Config, class T> struct UnitReads {
  using Shape = DecodeShape<Config, T>;

  DecodeStorage<Config, T> &shared;
  RingPlace<Shape::kStages> place = RingPlace<Shape::kStages>::after(0);

  /// The warp's part of the next unit.
  KILN_DEVICE UnitPart take() {
    UnitPart part;
    waitBarrier(shared.full[place.stage], place.parity);
    const u32 lane = laneIndex(), row = lane % 8;
    const SharedAddress base = SharedAddress(shared.ring[place.stage]) + warpIndex() * Shape::kPartBytes;
#pragma unroll
    for (u32 half = 0; half < 2; ++half)
      loadMatrices(part.words[half], base + swizzledOffset(row, half * 4 + lane / 8, row));
    syncWarp();
    if (lane == 0)
      arrive(shared.empty[place.stage]);
    place.advance();
    return part;
  }
};

/// The first units of a phase, taken while the warp would wait for the phase's rows.
template <class Config, class T> struct UnitsAhead {
  static constexpr int kAhead = Config::kAhead;

  UnitPart parts[max(kAhead, 1)];

  KILN_DEVICE void take(UnitReads<Config, T> &reads, int units) {
#pragma unroll
    for (int i = 0; i < kAhead; ++i)
      if (i < units)
        parts[i] = reads.take();
  }
  /// Calls use(i, part) for each unit i of the phase.
  template <class Use> KILN_DEVICE void forEach(UnitReads<Config, T> &reads, int units, const Use &use) const {
#pragma unroll
    for (int i = 0; i < kAhead; ++i)
      if (i < units)
        use(i, parts[i]);
#pragma unroll 2
    for (int i = kAhead; i < units; ++i)
      use(i, reads.take());
  }
};

} // namespace kiln
