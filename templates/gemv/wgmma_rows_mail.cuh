//===- wgmma_rows_mail.cuh - operands of rows in wgmma_rows.cuh that all blocks share --------===//
//
// Of the three warps beside the producer, one computes operands of rows for all blocks that have these rows, and sends
// them (row_mail.cuh); the others get those of the rows that the block owns.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "device/barrier.cuh"
#include "device/base.cuh"
#include "device/grid.cuh"
#include "device/index.cuh"
#include "device/warp.cuh"
#include "row_mail.cuh"

namespace kiln {

/// Rows: the kernel's WgmmaRows.
template <class Rows, class Epilogue> struct WgmmaRowsMailing {
  using Mail = RowMail<Epilogue>;
  using Shape = typename Rows::Shape;

  const Rows &thread;
  const Epilogue &epilogue;

  /// Called by warp 0, 1 or 2 of them.
  KILN_DEVICE void run(int warp) const {
    const Mail mail{epilogue, thread.firstRow + thread.rows - 1};
    if (warp == 0)
      send(mail);
    else
      receive(mail, warp - 1);
  }

private:
  /// Computes the block's share. The other warps begin to peek when the first of it is sent: then those of other blocks
  /// are on their way, too.
  KILN_DEVICE void send(const Mail &mail) const {
    const LaunchCount count(epilogue.mail);
    waitForDependencies();
    const int step = int(gridBlocksX()) * Mail::kRows, end = thread.firstRow + thread.rows;
    int row = thread.firstRow + int(blockIndexX()) * Mail::kRows;
    if constexpr (Shape::kReadsRows) {
      // Its loads are on their way before the copies of all rows begin, which every block asks for at the same time.
      const auto held = mail.holdRow(row, row < end, thread.shared.mail.asked);
      if (row < end)
        mail.send(row, epilogue.operandsOf(held), count.stamp());
    } else if (row < end) {
      const auto operands = mail.computeRows(row);
      mail.send(row, operands, count.stamp());
    }
    const u32 stamp = count.stamp();
    thread.shared.mail.stamp.publish(stamp);
    for (row += step; row < end; row += step)
      mail.send(row, mail.computeRows(row), stamp);
  }

  KILN_DEVICE void receive(const Mail &mail, int loader) const {
    waitForDependencies();
    const u32 stamp = thread.shared.mail.stamp.wait();
    constexpr int kStep = Shape::kLoaders * int(kWarpSize);
    for (int first = loader * int(kWarpSize); first < Shape::kOwnRows; first += kStep) {
      const int own = first + int(laneIndex());
      const auto operands = mail.receive(thread.firstRow + own * Rows::kParts + thread.part, stamp);
      if (own < Shape::kOwnRows)
        thread.template ofRow<Epilogue>(own) = operands;
    }
    arrive(thread.shared.loaded);
  }
};

} // namespace kiln
