//===- wgmma_mail_rows.cuh - how rows come to the warps of wgmma_mail.cuh -----------===//
//
// A warp beside the producer computes operands of row after row. Rows come to its registers: where these have room for
// two (kHeldRows), the next one while a row is computed. Else they come to shared memory, which is slower, as the
// tensor cores keep that busy. Where operands are computed from less than rows, such as statistics of groups of
// columns, nothing comes ahead.
//
// The rows of a group of tiles end at `end`; behind it, other work may follow. All of these have:
//
//   int step() const                        from a row of the warp to its next one
//   void ask(int row)                       asks for the first row, behind waitForDependencies()
//   Operands computeFirst(int row, int end) its operands; asks for the next one, if that lies before `end`
//   void continueWith(int row)              asks for the first row behind the end
//   Operands compute(int row, int end)      the operands of any other row; asks for the next one, likewise
//
//===----------------------------------------------------------------------===//
#pragma once

#include "device/async_copy.cuh"
#include "device/barrier.cuh"
#include "device/base.cuh"
#include "device/grid.cuh"
#include "gemm/wgmma_shape.cuh"
#include "norm/row_of_warp.cuh"
#include "row_mail.cuh"

namespace kiln {

/// What they share; alone, for rows of which nothing comes ahead.
template <class Config, class Tiled, class Epilogue> struct WgmmaGatheredRows {
  using Mail = RowMail<Epilogue>;
  const Tiled &tiled;
  const Mail &mail;
  const int warp;

  KILN_DEVICE int step() const { return kMailWarps * int(gridBlocksX()) * Mail::kRows; }
  KILN_DEVICE void ask(int) const {}
  KILN_DEVICE void continueWith(int) const {}
  KILN_DEVICE typename Mail::Operands computeFirst(int row, int) const { return mail.computeRows(row); }
  KILN_DEVICE typename Mail::Operands compute(int row, int) const { return mail.computeRows(row); }
};

/// Rows in registers, the next one while a row is computed.
template <class Config, class Tiled, class Epilogue>
struct WgmmaHeldRows : WgmmaGatheredRows<Config, Tiled, Epilogue> {
  using Gathered = WgmmaGatheredRows<Config, Tiled, Epilogue>;
  using Gathered::mail, Gathered::step, Gathered::tiled;
  typename Epilogue::Row::Held next;

  KILN_DEVICE void ask(int row) { next = mail.holdRow(row, row < tiled.rows, tiled.shared.mail.asked); }
  /// No register keeps a row from one end to the next.
  KILN_DEVICE void continueWith(int row) {
    next = {};
    next.load(mail.epilogue.rowAt(row));
  }
  KILN_DEVICE typename RowMail<Epilogue>::Operands computeFirst(int row, int end) { return compute(row, end); }
  KILN_DEVICE typename RowMail<Epilogue>::Operands compute(int row, int end) {
    const auto held = next;
    if (row + step() < end)
      next.load(mail.epilogue.rowAt(row + step()));
    return mail.epilogue.operandsOf(held);
  }
};

/// Rows in registers, one at a time.
template <class Config, class Tiled, class Epilogue>
struct WgmmaLoadedRows : WgmmaGatheredRows<Config, Tiled, Epilogue> {
  using Gathered = WgmmaGatheredRows<Config, Tiled, Epilogue>;
  using Gathered::mail, Gathered::tiled;
  typename Epilogue::Row::Held first;

  KILN_DEVICE void ask(int row) { first = mail.holdRow(row, row < tiled.rows, tiled.shared.mail.asked); }
  KILN_DEVICE typename RowMail<Epilogue>::Operands computeFirst(int, int) { return mail.epilogue.operandsOf(first); }
  KILN_DEVICE typename RowMail<Epilogue>::Operands compute(int row, int) {
    typename Epilogue::Row::Held held;
    held.load(mail.epilogue.rowAt(row));
    return mail.epilogue.operandsOf(held);
  }
};

/// Rows in shared memory, kAtOnce on their way at a time.
template <class Config, class Tiled, class Epilogue>
struct WgmmaCopiedRows : WgmmaGatheredRows<Config, Tiled, Epilogue> {
  using Gathered = WgmmaGatheredRows<Config, Tiled, Epilogue>;
  using Gathered::mail, Gathered::step, Gathered::tiled, Gathered::warp;
  static constexpr int kAtOnce = kMailRowsAtOnce;
  int place = 0; ///< of the row to be computed next

  KILN_DEVICE void copy(int row, int to) const {
    copyRow<Config::kDepth>(tiled.shared.mail.rows[warp][to], mail.epilogue.rowAt(min(row, mail.lastRow)),
                            row < tiled.rows);
  }
  KILN_DEVICE void ask(int row) const {
    for (int i = 0; i < kAtOnce; ++i)
      copy(row + i * step(), i);
  }
  KILN_DEVICE typename RowMail<Epilogue>::Operands computeFirst(int row, int end) { return compute(row, end); }
  KILN_DEVICE typename RowMail<Epilogue>::Operands compute(int row, int) {
    waitAsyncCopies<kAtOnce - 1>();
    const auto operands = mail.epilogue.operandsOf(typename Epilogue::Row(tiled.shared.mail.rows[warp][place]));
    copy(row + kAtOnce * step(), place);
    place = (place + 1) % kAtOnce;
    return operands;
  }
};

/// The rows of the warp with this index.
template <class Config, class Tiled, class Epilogue>
KILN_DEVICE auto mailRowsOf(const Tiled &tiled, const RowMail<Epilogue> &mail, int warp) {
  const WgmmaGatheredRows<Config, Tiled, Epilogue> rows{tiled, mail, warp};
  if constexpr (Tiled::Shape::kHeldRows == 1)
    return WgmmaLoadedRows<Config, Tiled, Epilogue>{rows};
  else if constexpr (Tiled::Shape::kHeldRows == 2)
    return WgmmaHeldRows<Config, Tiled, Epilogue>{rows};
  else if constexpr (Tiled::Shape::kCopiesRows)
    return WgmmaCopiedRows<Config, Tiled, Epilogue>{rows};
  else
    return rows;
}

} // namespace kiln
