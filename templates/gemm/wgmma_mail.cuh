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
// Rows from which operands are computed come to these warps by shared memory, which the tensor cores keep busy. Where
// there are two teams or more, those behind the first compute them instead, of all rows before their first tile: they
// would wait for their turn, while the first team's first products run, and hold rows in registers, which are free.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "device/barrier.cuh"
#include "device/base.cuh"
#include "device/grid.cuh"
#include "device/index.cuh"
#include "device/vec.cuh"
#include "device/warp.cuh"
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

  KILN_DEVICE int step() const { return kMailWarps * int(gridBlocksX()) * Mail::kRows; }

  KILN_DEVICE void run() const {
    auto &shared = tiled.shared.mail;
    const Mail mail{epilogue, tiled.rows - 1};
    int next = Shape::kTeamsReadRows ? tiled.rows : (warp * int(gridBlocksX()) + int(blockIndexX())) * Mail::kRows;
    const bool holds = Shape::holdsRow(tiled.rows);
    const u32 stamp = holds ? sendHeldRow(mail, next) : start(next);
    if (holds)
      next = tiled.rows;
    int place = 0;
#pragma unroll 1
    for (int i = 0;; ++i) {
      const bool has = tiled.block.has(i);
      const int m = has ? tiled.block.place(i).m : 0;
      // Behind its last tile, the warp's rows of all further groups.
      const int end = has ? min((m / (kGroupRows / kM) + 1) * kGroupRows, tiled.rows) : tiled.rows;
#pragma unroll 1
      for (; next < end; next += step())
        mail.send(next, compute(mail, next, place), stamp);
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
  /// Counts the block, waits for the kernels before and asks for the first rows. Returns the stamp of the launch.
  KILN_DEVICE u32 start(int first) const {
    MailStamp &stamp = tiled.shared.mail.stamp;
    if (warp > 0) {
      ask(first);
      return stamp.wait();
    }
    const LaunchCount count(epilogue.mail);
    ask(first);
    const u32 own = count.stamp();
    stamp.publish(own);
    return own;
  }
  KILN_DEVICE void ask(int first) const {
    waitForDependencies();
    if constexpr (Shape::kMailWarpsReadRows)
      for (int i = 0; i < kRowsAtOnce; ++i)
        copy(first + i * step(), i);
  }

  /// The same for a warp that has one row or none, which it holds and computes itself; and sends its operands.
  KILN_DEVICE u32 sendHeldRow(const Mail &mail, int row) const {
    if constexpr (Shape::kCanHoldRow) {
      MailStamp &stamp = tiled.shared.mail.stamp;
      if (warp > 0) {
        const auto operands = computeHeldRow(mail, row);
        const u32 own = stamp.wait();
        mail.send(row, operands, own);
        return own;
      }
      const LaunchCount count(epilogue.mail);
      const auto operands = computeHeldRow(mail, row);
      const u32 own = count.stamp();
      mail.send(row, operands, own);
      stamp.publish(own);
      return own;
    }
    return 0;
  }
  KILN_DEVICE typename Mail::Operands computeHeldRow(const Mail &mail, int row) const {
    waitForDependencies();
    const bool exists = row < tiled.rows;
    const auto held = mail.holdRow(row, exists, tiled.shared.mail.asked);
    return exists ? epilogue.operandsOf(held) : typename Mail::Operands{};
  }

  // Rows come to shared memory, kRowsAtOnce at a time: there are no registers for so many loads in flight.
  static constexpr int kRowsAtOnce = 2;
  KILN_DEVICE void copy(int row, int place) const {
    copyRow<Config::kDepth>(tiled.shared.mail.rows[warp][place], epilogue.rowAt(min(row, tiled.rows - 1)),
                            row < tiled.rows);
  }

  /// The operands of the next rows, `place`: where the row is. Asks for the row that comes there next.
  KILN_DEVICE typename Mail::Operands compute(const Mail &mail, int row, int &place) const {
    if constexpr (Shape::kMailWarpsReadRows) {
      waitAsyncCopies<kRowsAtOnce - 1>();
      const auto operands = epilogue.operandsOf(typename Epilogue::Row(tiled.shared.mail.rows[warp][place]));
      copy(row + kRowsAtOnce * step(), place);
      place = (place + 1) % kRowsAtOnce;
      return operands;
    } else {
      return mail.computeRows(row);
    }
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
