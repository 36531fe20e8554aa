//===- wgmma_rows_products.cuh - the products of a warpgroup of wgmma_rows.cuh --------===//
//
// An instruction multiplies 64 rows of its left operand with up to 256 of its right one. It takes its time for what it
// reads of shared memory, 128 bytes a cycle, and reads 64 rows of the left operand, be they rows of A or not. So with
// fewer than 64 rows and tiles of 64 columns the weight is the left operand: of 64 columns, a step of the depth reads
// 12 KB instead of 16 with 32 rows, 10 with 16 and 9 with 8. The order of sums is the same.
//
// Which thread holds what: if rows are the left operand, as in gemm/wgmma_tiled.cuh, whose map of the weight this
// kernel shares: of every 32 columns, row 8 i + 2 t + e of the weight in shared memory is column 8 t + 2 i + e. So of
// the rows 8 i + r of the left operand, which lanes 4 r to 4 r + 3 have in the sums, i = 0 and 1 (or 2 and 3) are
// columns two apart, and even and odd r are neighbours: two lanes that exchange half of what they have get four
// neighbouring columns of a row each.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "device/barrier.cuh"
#include "device/base.cuh"
#include "device/cluster.cuh"
#include "device/index.cuh"
#include "device/shared.cuh"
#include "device/shared_product.cuh"
#include "device/vec.cuh"
#include "device/warp.cuh"
#include "device/warpgroup.cuh"
#include "gemm/ring_place.cuh"

namespace kiln {

/// The products of warpgroup `group` for one tile. Rows is WgmmaRows.
template <class Rows> struct WgmmaRowsProducts {
  using Shape = typename Rows::Shape;
  using T = typename Rows::Element;
  using Sums = typename Shape::Sums;
  using Cut = typename Shape::Cut;
  static constexpr int kChains = Shape::kChains, kPieces = Shape::kPieces, kStages = Shape::kStages;
  /// Steps whose products are under way while those of the next one start: a stage is free when they have ended.
  static constexpr int kPending = kStages > 1 ? 1 : 0;

  const Rows &thread;
  const int group;

  /// The sums of all chains, the first one's first.
  using AllSums = Sums[kChains * kPieces];

  /// The products of the warpgroup's range: in the first chain's sums, with those of the other chains added.
  KILN_DEVICE void multiply(AllSums &sums, RingPlace<kStages> &ring) const {
    const int firstChain = (thread.part * Shape::kGroups + group) * kChains;
    Operands operands{SharedOperand(thread.stageOfRows(group, 0)),
                      SharedOperand(SharedAddress(thread.shared.b[group][0])),
                      u32(thread.copiedRows) * Shape::kRowBytes};
    if constexpr (Shape::kCopiesRowsAtOnce)
      waitBarrier(thread.shared.rowsFull[group], 0);
#pragma unroll
    for (int chain = 0; chain < kChains; ++chain) {
      // Steps that every chain has are not counted: that takes as long as the products.
#pragma unroll
      for (int i = 0; i < Cut::kLeastSteps; ++i)
        multiplyStep(sums, chain, operands, ring, i == 0);
      if (Cut::hasOneMore(firstChain + chain))
        multiplyStep(sums, chain, operands, ring, false);
    }
    waitProducts<0>(sums);
    receive(sums);
    if constexpr (Shape::kReusesStages && kPending > 0)
      release(operands.stage);
#pragma unroll
    for (int i = kPieces; i < kChains * kPieces; ++i)
      addSums(sums[i % kPieces], sums[i]);
  }

  /// Gives the sums of each row to the row's owner.
  KILN_DEVICE void give(const AllSums &sums) const {
    if constexpr (Shape::kWeightIsLeft)
      giveOfWeight(sums);
    else
      giveOfRows(sums);
    if constexpr (Shape::kParts == 1) {
      syncWarp(); // lanes read what others of their warp have given
      arrive(thread.shared.complete);
    }
  }

private:
  /// What products of a step take: the elements of rows, those of the weight's first stage, and the bytes of a step of
  /// rows that have come by one copy; and the stage of the step before.
  struct Operands {
    SharedOperand rows, firstOfWeight;
    u32 rowsBytes, stage = 0;
  };

  KILN_DEVICE void release(u32 stage) const {
    if (laneIndex() == 0)
      arrive(thread.shared.empty[group][stage]);
  }

  /// The next step of the range, at its place in the ring.
  KILN_DEVICE void multiplyStep(AllSums &sums, int chain, Operands &operands, RingPlace<kStages> &ring,
                                bool isFirst) const {
    const u32 stage = ring.stage;
    const SharedOperand weight = operands.firstOfWeight + stage * Shape::kBytesB;
    const SharedOperand rows =
        operands.rows + (Shape::kCopiesRowsAtOnce ? 0 : stage * (Shape::kRows * Shape::kRowBytes));
    waitBarrier(thread.shared.full[group][stage], ring.parity);
#pragma unroll
    for (int piece = 0; piece < kPieces; ++piece)
      fenceProducts(sums[chain * kPieces + piece]);
#pragma unroll
    for (int i = 0; i < Shape::kInstructions; ++i)
#pragma unroll
      for (int piece = 0; piece < kPieces; ++piece)
        multiplyPiece(sums[chain * kPieces + piece], weight + u32(piece) * 64 * Shape::kRowBytes, rows,
                      u32(i) * 2 * kChunkBytes, !isFirst || i > 0);
    commitProducts();
    if constexpr (Shape::kCopiesRowsAtOnce)
      operands.rows = operands.rows + operands.rowsBytes;
    ring.advance();
    if constexpr (Shape::kReusesStages) {
      if (kPending == 0 || chain > 0 || !isFirst) {
        waitProducts<kPending>(sums);
        release(kPending == 0 ? stage : operands.stage);
      }
      operands.stage = stage;
    }
  }
  KILN_DEVICE void multiplyPiece(Sums &to, SharedOperand weight, SharedOperand rows, u32 offset, bool adds) const {
    if constexpr (Shape::kWeightIsLeft)
      startSharedProduct<T>(to, weight, rows, offset, adds, 64, thread.copiedRows);
    else
      startSharedProduct<T, Shape::kRows>(to, rows, weight, offset, adds, thread.copiedRows);
  }

  /// Gives four neighbouring columns of a row, from `col` of the tile, to the row's owner.
  KILN_DEVICE void giveVector(int row, int col, const Vec<float, 4> &values) const {
    float *own = &thread.shared.sums[thread.part * Shape::kGroups + group][row / Shape::kParts][col];
    if constexpr (Shape::kParts > 1) {
      const u32 owner = u32(row % Shape::kParts);
      storeAsync(inBlock(own, owner), values, inBlock(&thread.shared.complete, owner));
    } else {
      storeShared(own, values);
    }
  }

  KILN_DEVICE void giveOfRows(const AllSums &sums) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = int(warpIndex()) % 4 * 16 + half * 8 + int(laneIndex()) / 4;
      if (row >= thread.rows)
        continue;
#pragma unroll
      for (int i = 0; i < Shape::kN / 8; i += 2) {
        const auto &low = sums[0].tiles[i].values, &high = sums[0].tiles[i + 1].values;
        giveVector(row, i / 4 * 32 + int(laneIndex()) % 4 * 8 + i % 4 * 2,
                   {low[half * 2], low[half * 2 + 1], high[half * 2], high[half * 2 + 1]});
      }
    }
  }

  KILN_DEVICE void giveOfWeight(const AllSums &sums) const {
    const int warp = int(warpIndex()) % 4, group = int(laneIndex()) / 4;
    const bool isOdd = group % 2 != 0; // of the two lanes that exchange: gets the second of two rows
#pragma unroll
    for (int tile = 0; tile < Shape::kRows / 8; ++tile) {
      const int row = tile * 8 + int(laneIndex()) % 4 * 2 + int(isOdd);
#pragma unroll
      for (int piece = 0; piece < kPieces; ++piece) {
        const auto &values = sums[piece].tiles[tile].values;
        Vec<float, 4> columns;
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const float first = values[half * 2], second = values[half * 2 + 1];
          const float mine = isOdd ? second : first, others = shuffleXor(isOdd ? first : second, 4);
          columns[half * 2] = isOdd ? others : mine;
          columns[half * 2 + 1] = isOdd ? mine : others;
        }
        if (row < thread.rows)
          giveVector(row, piece * 64 + warp / 2 * 32 + group / 2 * 8 + warp % 2 * 4, columns);
      }
    }
  }
};

} // namespace kiln
