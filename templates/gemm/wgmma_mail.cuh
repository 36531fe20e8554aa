//===- wgmma_mail.cuh - operands of rows in wgmma_tiled.cuh that all blocks share ------===//
//
// Beside the producer, three warps of a block compute operands of rows for all blocks, and get those of the block's
// tiles (row_mail.cuh): into shared memory, a place for each team. So consumers need no registers for them while they
// multiply.
//
// Blocks run through groups of tiles together (GroupedTiles), so that the rows of one group are dealt out to all
// blocks before those of the next. A warp computes its share of a group, and of all before, before it waits for rows of
// the group: so the warps that others wait for are never behind them, and none waits for what comes after its own wait.
//
// Rows from which operands are computed come to these warps one by one (wgmma_mail_rows.cuh). Where there are two teams
// or more, those behind the first compute them instead, of all rows before their first tile: they would wait for their
// turn, while the first team's first products run, and hold rows in registers, which are free.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "device/barrier.cuh"
#include "device/base.cuh"
#include "device/grid.cuh"
#include "device/index.cuh"
#include "device/vec.cuh"
#include "device/warp.cuh"
#include "gemm/wgmma_mail_rows.cuh"
#include "gemm/wgmma_shape.cuh"
#include "row_mail.cuh"

namespace kiln {

/// The work of the warps with index `warp`, 0 to kMailWarps - 1, beside the producer; or of the warps of all teams
/// behind the first.
template <class Config, class Tiled, class Epilogue> struct WgmmaMail {
  using Shape = typename Tiled::Shape;
  using Mail = RowMail<Epilogue>;
  using Order = decltype(Tiled::block.order);
  static constexpr int kTeams = Shape::kTeams, kM = Shape::kM;
  static constexpr int kGroupRows = Order::kGroupTiles * Shape::Cluster::kBlocksM * kM;

  const Tiled &tiled;
  const Epilogue &epilogue;
  const int warp;

  KILN_DEVICE void run() const {
    auto &shared = tiled.shared.mail;
    const Mail mail{epilogue, tiled.rows - 1};
    auto rows = mailRowsOf<Config>(tiled, mail, warp);
    int next = Shape::kTeamsReadRows ? tiled.rows : (warp * int(gridBlocksX()) + int(blockIndexX())) * Mail::kRows;
    // The first group comes before the loop: in it, a row that is on its way would keep registers through all tiles.
    int end = endOfGroup(0);
    const u32 stamp = start(rows, next);
    if (next < end) {
      mail.send(next, rows.computeFirst(next, end), stamp);
      next += rows.step();
    }
#pragma unroll 1
    for (int i = 0;; ++i) {
      const bool has = tiled.block.has(i);
      const int m = has ? tiled.block.place(i).m : 0;
      if (i > 0) {
        end = has ? endOfGroupOf(m) : tiled.rows;
        if (next < end)
          rows.continueWith(next);
      }
#pragma unroll 1
      for (; next < end; next += rows.step())
        mail.send(next, rows.compute(next, end), stamp);
      if (!has)
        return;
      if (i >= kTeams)
        waitBarrier(shared.taken[i % kTeams], u32(i / kTeams - 1) & 1);
      receiveTile(mail, m, i % kTeams, stamp);
    }
  }

  /// Computes the warp's share of all rows, for kTeamsReadRows: some at a time, while the next are on their way.
  KILN_DEVICE void computeHeldRows() const {
    using Held = typename Epilogue::Row::Held;
    constexpr int kRegisters = Shape::kConsumerRegisters > 160 ? 64 : 32; // for some rows
    constexpr int kHeld = max(1, min(4, kRegisters / int(sizeof(Held) / sizeof(u32))));
    const int stride = 4 * Shape::kConsumers * (kTeams - 1) * int(gridBlocksX());
    const Mail mail{epilogue, tiled.rows - 1};
    Held rows[kHeld];
    const auto load = [&](int first) {
#pragma unroll
      for (int i = 0; i < kHeld; ++i)
        rows[i].load(epilogue.rowAt(min(first + i * stride, mail.lastRow)));
    };
    int first = warp * int(gridBlocksX()) + int(blockIndexX());
    load(first);
    const u32 stamp = tiled.shared.mail.stamp.wait();
#pragma unroll 1
    while (first < tiled.rows) {
      Held held[kHeld];
#pragma unroll
      for (int i = 0; i < kHeld; ++i)
        held[i] = rows[i];
      const int next = first + kHeld * stride;
      if (next < tiled.rows)
        load(next);
      typename Mail::Operands operands[kHeld];
#pragma unroll
      for (int i = 0; i < kHeld; ++i)
        operands[i] = epilogue.operandsOf(held[i]);
#pragma unroll
      for (int i = 0; i < kHeld; ++i)
        mail.send(first + i * stride, operands[i], stamp);
      first = next;
    }
  }

private:
  /// The end of the rows that the warp computes before it waits for those of a tile: of the tile's group. Behind the
  /// last tile, of all further groups.
  KILN_DEVICE int endOfGroupOf(int m) const { return min((m / (kGroupRows / kM) + 1) * kGroupRows, tiled.rows); }
  KILN_DEVICE int endOfGroup(int i) const {
    return tiled.block.has(i) ? endOfGroupOf(tiled.block.place(i).m) : tiled.rows;
  }

  /// Counts the block, waits for the kernels before and asks for the warp's first row. Returns the stamp of the launch.
  template <class Rows> KILN_DEVICE u32 start(Rows &rows, int first) const {
    MailStamp &stamp = tiled.shared.mail.stamp;
    if (warp > 0) {
      waitForDependencies();
      rows.ask(first);
      return stamp.wait();
    }
    const LaunchCount count(epilogue.mail);
    waitForDependencies();
    rows.ask(first);
    const u32 own = count.stamp();
    stamp.publish(own);
    return own;
  }

  KILN_DEVICE void receiveTile(const Mail &mail, int m, int team, u32 stamp) const {
    auto &shared = tiled.shared.mail;
    constexpr int kPieces = kM / int(kWarpSize);
#pragma unroll 1
    for (int piece = warp; piece < kPieces; piece += kMailWarps) {
      const int row = piece * int(kWarpSize) + int(laneIndex());
      const auto [first, second] = mail.receive(tiled.block.firstRow(m) + row, stamp);
      shared.ofRows[team][row] = {first, second};
    }
    arrive(shared.loaded[team]);
  }
};

/// The work of a warp beside the producer; none if the blocks share no operands of rows.
template <class Tiled, class Epilogue>
KILN_DEVICE void mailRows(const Tiled &tiled, const Epilogue &epilogue, int warp) {
  if constexpr (Tiled::Shape::kMails)
    WgmmaMail<typename Tiled::Settings, Tiled, Epilogue>{tiled, epilogue, warp}.run();
}

} // namespace kiln
