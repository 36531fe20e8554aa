//===- units.cuh - the weights of a block on their way to its warps -------------------===//
//
// A producer thread copies units (decode/shape.cuh) into a ring of stages, in the order in which the block needs them,
// as long as stages are free: it never waits for what other blocks compute, so weights stream while they do. But at
// most kInFlight units are under way at a time, as many as keep the memory busy: all that clusters tell each other
// waits behind them. For the logits it may be more. Warps take units in the same order; a warp takes its parts
// of 8 columns of 64 of the depth into registers. The stage is free when all warps have.
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

/// 8 columns of 64 of the depth, as a warp has them in registers.
struct UnitPart {
  u32 words[2][4];

  /// The right operand of one of the four products.
  KILN_DEVICE MmaB operand(int step) const {
    return {{words[step / 2][step % 2 * 2], words[step / 2][step % 2 * 2 + 1]}};
  }
};

/// Rows of 64 of the depth as the left operand of the four products: lane 4 · row + place has elements 8i + 2 place and
/// the next of row `row`, of 8, in word i.
struct RowPart {
  u32 words[8];

  /// Reads rows in shared memory whose first elements of the part are at `first`, `stride` elements apart; `lane` is
  /// this one. Of rows from `rows` on it has copies of the last one.
  template <class T> KILN_DEVICE static RowPart read(const T *first, int stride, int rows, int lane) {
    RowPart part;
    const T *chunk = first + min(lane % 8, rows - 1) * stride + lane / 8 * 8;
    u32 words[2][4];
    loadMatrices(words[0], SharedAddress(chunk));
    loadMatrices(words[1], SharedAddress(chunk + 32));
#pragma unroll
    for (int i = 0; i < 8; ++i)
      part.words[i] = words[i / 4][i % 4];
    return part;
  }
  template <class T> KILN_DEVICE Vec<float, 2> values(int i) const {
    return {lowToFloat<T>(words[i]), highToFloat<T>(words[i])};
  }
};

/// The rows as the right operand, which has a column for each of them: in registers it is the left operand's first
/// half.
KILN_DEVICE UnitPart transposed(const RowPart &rows) {
  UnitPart part;
#pragma unroll
  for (int i = 0; i < 8; ++i)
    part.words[i / 4][i % 4] = rows.words[i];
  return part;
}

/// Sums of products of rows and parts: lane 4 · row + place has columns 2 place and the next of the row.
template <class T> struct PartSums {
  MmaSums sums[2] = {};

  /// `ninth` is the lane's word of the operand's ninth row, the same all along the depth.
  KILN_DEVICE void add(const RowPart &rows, const UnitPart &part, u32 ninth = 0) {
#pragma unroll
    for (int step = 0; step < 4; ++step)
      multiplyAdd<T>(sums[step % 2], {{rows.words[2 * step], ninth, rows.words[2 * step + 1], ninth}},
                     part.operand(step));
  }
  /// Adds the products of rows with themselves.
  KILN_DEVICE void addMoments(const RowPart &rows, u32 ninth) { add(rows, transposed(rows), ninth); }

  KILN_DEVICE Vec<float, 2> values() const {
    return {sums[0].values[0] + sums[1].values[0], sums[0].values[1] + sums[1].values[1]};
  }
  /// Of the ninth row, in the first four lanes.
  KILN_DEVICE Vec<float, 2> ninth() const {
    return {sums[0].values[2] + sums[1].values[2], sums[0].values[3] + sums[1].values[3]};
  }
};

/// One row as the right operand of products whose left one is a part. Such a product takes 32 of the depth: its first 8
/// rows are the part's columns in one slice of 16, the others those in the next slice, and the row has these slices in
/// columns 0 and 1. So there are half as many products as by RowPart, with the same bits. Lane 4 · column + place has
/// elements 2 place and the next of its slice, and in odd words those 8 further on. Column 2 may have ones.
struct OneRowPart {
  u32 words[4];

  /// The first element of a word in the part, for a lane with that column and place.
  KILN_DEVICE static constexpr int elementOf(int word, int column, int place) {
    return word / 2 * 32 + (column == 1 ? 16 : 0) + word % 2 * 8 + 2 * place;
  }
  /// Reads a row in shared memory whose first element of the part is at `first`.
  template <class T> KILN_DEVICE static OneRowPart read(const T *first, int, int, int lane) {
    OneRowPart part;
    loadMatrices(part.words, SharedAddress(first + elementOf(lane / 8, lane % 8, 0)));
    return part;
  }
  template <class T> KILN_DEVICE Vec<float, 2> values(int i) const {
    return {lowToFloat<T>(words[i]), highToFloat<T>(words[i])};
  }
};

/// Sums of products of one row and parts, which begin and end as those of PartSums.
template <class T> struct OneRowSums {
  MmaSums sums = {};

  KILN_DEVICE void add(const OneRowPart &row, const UnitPart &part, u32 = 0) {
#pragma unroll
    for (int i = 0; i < 2; ++i)
      multiplyAdd<T>(sums, {{part.words[i][0], part.words[i][2], part.words[i][1], part.words[i][3]}},
                     {{row.words[2 * i], row.words[2 * i + 1]}});
  }
  /// Of column lane / 4 of the part, in lanes with place 0 of the row, with place 1 of the ones.
  KILN_DEVICE float value(int place) const { return sums.values[0] + (place == 0 ? sums.values[3] : sums.values[2]); }
  /// Adds the products of a row with itself, and with the ones.
  KILN_DEVICE void addMoments(const OneRowPart &row, u32) {
#pragma unroll
    for (int i = 0; i < 2; ++i)
      multiplyAdd<T>(sums, {{row.words[2 * i], 0, row.words[2 * i + 1], 0}},
                     {{row.words[2 * i], row.words[2 * i + 1]}});
  }
  /// The sum of the row's squares in lane 0, that of the row in lane 1.
  KILN_DEVICE float moment(int lane) const {
    const float ofSlice = lane == 4 ? sums.values[1] : sums.values[0];
    return ofSlice + shuffleXor(ofSlice, 4);
  }
};

/// How rows are multiplied.
template <class T, int kRows> struct RowProducts {
  using Part = RowPart;
  using Sums = PartSums<T>;
  static constexpr int kWords = 8; ///< of a part
};
template <class T> struct RowProducts<T, 1> {
  using Part = OneRowPart;
  using Sums = OneRowSums<T>;
  static constexpr int kWords = 4;
};

/// What a warp has of a unit of either kind. Those that are past the last one of the unit are copies of it.
template <class Config, class T> struct UnitParts {
  UnitPart of[Config::kWarpParts];
};

/// The producer's side of the ring.
template <class Config, class T> struct UnitCopies {
  using Shape = DecodeShape<Config, T>;

  DecodeStorage<Config, T> &shared;
  u32 copied = 0;

  template <UnitKind kKind, int kInFlight, int kRank>
  KILN_DEVICE void copy(const TensorMap &weight, const int (&at)[kRank]) {
    const auto place = RingPlace<Shape::kStages>::after(copied);
    if (copied >= kInFlight) {
      const auto earlier = RingPlace<Shape::kStages>::after(copied - kInFlight);
      waitBarrier(shared.full[earlier.stage], earlier.parity);
    }
    if (copied++ >= Shape::kStages)
      waitBarrier(shared.empty[place.stage], place.parity ^ 1);
    arriveExpecting(shared.full[place.stage], u32(Shape::template kParts<kKind>) * Shape::kPartBytes);
    copyBoxOnce(SharedAddress(shared.ring[place.stage]), weight, at, shared.full[place.stage]);
  }
  /// 8 columns of the whole depth. The map has rank 3: 64 of the depth, the columns, the depth's multiples of 64.
  template <int kInFlight = Shape::kInFlight> KILN_DEVICE void copyWide(const TensorMap &weight, int col) {
    copy<UnitKind::Wide, kInFlight>(weight, {0, col, 0});
  }
  /// 64 of the depth, of as many columns as a block can have.
  KILN_DEVICE void copyNarrow(const TensorMap &weight, int depth, int col) {
    copy<UnitKind::Narrow, Shape::kInFlight>(weight, {depth, col});
  }
};

/// A warp's side of the ring.
template <class Config, class T> struct UnitReads : DecodeThread<Config, T> {
  using Shape = DecodeShape<Config, T>;
  using Thread = DecodeThread<Config, T>;
  using Thread::lane, Thread::rank, Thread::shared, Thread::Thread, Thread::warp;

  RingPlace<Shape::kStages> ring = RingPlace<Shape::kStages>::after(0);

  /// The index of a part of this warp; whether it is one of the unit, and of the block's columns.
  template <UnitKind kKind> KILN_DEVICE int indexOf(int part) const {
    return warp() * Shape::template kWarpParts<kKind> + part;
  }
  template <UnitKind kKind> KILN_DEVICE bool has(int part) const {
    constexpr int kParts = Shape::template kParts<kKind>;
    constexpr bool kAreOfAllBlocks = kKind == UnitKind::Wide || Shape::kRowGroups % Shape::kBlocks == 0;
    if constexpr (kAreOfAllBlocks && kParts == Shape::kWarps * Shape::template kWarpParts<kKind>)
      return true;
    return indexOf<kKind>(part) < (kAreOfAllBlocks ? kParts : Shape::partOf(Shape::kRowGroups, Shape::kBlocks, rank));
  }

  /// The warp's parts of the next unit.
  template <UnitKind kKind> KILN_DEVICE UnitParts<Config, T> takeUnit() {
    UnitParts<Config, T> parts[1];
    takeUnits<kKind, 1>(parts, 1);
    return parts[0];
  }
  /// The warp's parts of the next `units` units, but kCount at most; there are kFewest. The loads of all are under way
  /// before the first stage is given back.
  template <UnitKind kKind, int kFewest, int kCount>
  KILN_DEVICE void takeUnits(UnitParts<Config, T> (&parts)[kCount], int units) {
    RingPlace<Shape::kStages> next = ring;
    const UnitOffsets<kKind> offsets = offsetsInUnit<kKind>();
#pragma unroll
    for (int i = 0; i < kCount; ++i)
      if (i < kFewest || i < units) {
        waitBarrier(shared.full[next.stage], next.parity);
        loadUnit(parts[i], SharedAddress(shared.ring[next.stage]), offsets);
        next.advance();
      }
    syncWarp();
#pragma unroll
    for (int i = 0; i < kCount; ++i)
      if (i < kFewest || i < units) {
        // A load fills all registers of the warp's lanes at once.
        constexpr int kLoads = 2 * Shape::template kWarpParts<kKind>;
        u32 loaded[kLoads];
#pragma unroll
        for (int word = 0; word < kLoads; ++word)
          loaded[word] = parts[i].of[word / 2].words[word % 2][0];
        if (lane() == 0)
          arriveBehindLoads(shared.empty[ring.stage], loaded);
        ring.advance();
      }
  }

private:
  /// Where this lane's rows of the warp's parts lie in a unit.
  template <UnitKind kKind> struct UnitOffsets {
    u32 of[Shape::template kWarpParts<kKind>][2];
  };
  template <UnitKind kKind> KILN_DEVICE UnitOffsets<kKind> offsetsInUnit() const {
    const u32 row = u32(lane()) % 8, column = u32(lane()) / 8;
    UnitOffsets<kKind> offsets;
#pragma unroll
    for (int i = 0; i < Shape::template kWarpParts<kKind>; ++i)
#pragma unroll
      for (u32 half = 0; half < 2; ++half)
        offsets.of[i][half] = u32(min(indexOf<kKind>(i), Shape::template kParts<kKind> - 1)) * Shape::kPartBytes +
                              swizzledOffset(row, half * 4 + column, row);
    return offsets;
  }
  template <UnitKind kKind>
  KILN_DEVICE void loadUnit(UnitParts<Config, T> &parts, SharedAddress stage, const UnitOffsets<kKind> &offsets) const {
#pragma unroll
    for (int i = 0; i < Shape::template kWarpParts<kKind>; ++i)
#pragma unroll
      for (int half = 0; half < 2; ++half)
        loadMatrices(parts.of[i].words[half], stage + offsets.of[i][half]);
  }
};

/// The first units of a phase, taken while the warp would wait for the phase's rows.
template <class Config, class T> struct UnitsAhead {
  static constexpr int kAhead = Config::kAhead;

  UnitParts<Config, T> parts[max(kAhead, 1)];

  /// Of `units` units, kFewest at least.
  template <UnitKind kKind, int kFewest> KILN_DEVICE void take(UnitReads<Config, T> &reads, int units) {
#pragma unroll
    for (int i = kFewest; i < kAhead; ++i)
      parts[i] = {}; // otherwise registers keep what was taken before
    reads.template takeUnits<kKind, kFewest>(parts, units);
  }
};

} // namespace kiln
