//===- row_mail.cuh - what an epilogue reads by rows, computed once for all blocks --------===//
//
// Every block of a matrix product needs the statistics of all rows of its tiles. An epilogue (epilogue.cuh) whose
// operands of rows are computed, not just loaded, can have each row's computed by one warp of one block, which posts
// them to the others (device/mailbox.cuh), while the tensor cores multiply. It has
//
//   StampedValue *mail;                   memory of the step alone, zero before its first launch: 16 bytes, and 16 for
//                                         each row
//   static constexpr int kRowLanes;       lanes that compute the operands of a row together
//   struct RowOperands;                   two floats
//
// and is passed to a template whose Config has kMails = true. If they are computed from rows in memory, of kDepth
// elements of type T, Config has kReadsRows = true, and the epilogue
//
//   using Row = RowOfWarp<T, kDepth, …>;  a row, wherever it is (norm/row_of_warp.cuh)
//   const T *rowAt(int row) const;
//   RowOperands operandsOf(const AnyRow &row) const;   of a Row, or a Row::Held
//
// Stamps: the launches of a step are counted in its first 16 bytes, so that nothing must be cleared between them. A
// launch adds the same number, kLaunch, whatever its grid is: each block 1, the first block the rest. So all blocks of
// a launch see the same multiple of it, and use that as their stamp. They may count before waitForDependencies(): the
// step's launch before belongs to an earlier call, which has ended.
//
// Nobody waits for ever: blocks of a launch need not be resident together. A warp that has waited for long computes a
// row's operands itself, with the same bits.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "device/atomic.cuh"
#include "device/barrier.cuh"
#include "device/base.cuh"
#include "device/bits.cuh"
#include "device/index.cuh"
#include "device/mailbox.cuh"
#include "device/vec.cuh"
#include "device/warp.cuh"

namespace kiln {

/// Config::kMails; false if Config has none. It is called with 0: overload resolution prefers the first of the two.
template <class Config> KILN_DEVICE constexpr auto mailsRows(int) -> decltype(bool(Config::kMails)) {
  return Config::kMails;
}
template <class Config> KILN_DEVICE constexpr bool mailsRows(long) { return false; }

/// The same of Config::kReadsRows.
template <class Config> KILN_DEVICE constexpr auto readsRows(int) -> decltype(bool(Config::kReadsRows)) {
  return Config::kReadsRows;
}
template <class Config> KILN_DEVICE constexpr bool readsRows(long) { return false; }

/// The stamp of a launch, for the warps of a block.
struct MailStamp {
  SharedBarrier known; ///< of one arrival
  u32 stamp;

  /// What one warp has counted is known to the others; and their wait for it.
  KILN_DEVICE void publish(u32 value) {
    if (laneIndex() == 0) {
      stamp = value;
      arrive(known);
    }
    syncWarp();
  }
  KILN_DEVICE u32 wait() {
    waitBarrier(known, 0);
    return stamp;
  }
};

/// The count of launches as one lane of a block has read it. Nobody waits for it before stamp() is called.
struct LaunchCount {
  static constexpr u64 kLaunch = u64(1) << 28; // more than the blocks of a grid
  u64 count = 0;

  /// Counts the block; all lanes of one of its warps call it.
  KILN_DEVICE explicit LaunchCount(StampedValue *mail) {
    const u32 blocks = gridBlocksX() * gridBlocksY();
    const bool isFirst = blockIndexX() == 0 && blockIndexY() == 0;
    if (laneIndex() == 0)
      count = atomicAddAhead(reinterpret_cast<u64 *>(mail), isFirst ? kLaunch - (blocks - 1) : 1);
  }
  /// The whole count is shuffled, not what is computed from it: compilers would compute that at once.
  KILN_DEVICE u32 stamp() const { return u32(shuffle(count, 0) / kLaunch) + 1; }
};

/// The mail of a launch as one warp sees it. All lanes call each function together.
template <class Epilogue> struct RowMail {
  using Operands = typename Epilogue::RowOperands;
  static constexpr int kLanes = Epilogue::kRowLanes;
  static constexpr int kRows = int(kWarpSize) / kLanes; ///< that a warp computes at a time
  static_assert(sizeof(Operands) == 2 * sizeof(float), "two floats, which a pair of words holds");

  const Epilogue &epilogue;
  const int lastRow; // a later one is taken for it

  KILN_DEVICE StampedValue *words(int row) const { return epilogue.mail + 2 + 2 * i64(row); }
  KILN_DEVICE Operands compute(int row) const { return epilogue.template rowOperands<kLanes>(min(row, lastRow)); }

  /// Posts the operands of kRows rows, which the lanes have computed.
  KILN_DEVICE void send(int firstRow, const Operands &operands, u32 stamp) const {
    const int row = firstRow + int(laneIndex()) / kLanes;
    const auto [first, second] = operands;
    if (row <= lastRow && laneIndex() % kLanes == 0)
      post(words(row), {first, second}, stamp);
  }
  /// A row in registers, if it exists. Arrives at `asked` when its loads are on their way.
  KILN_DEVICE auto holdRow(int row, bool exists, SharedBarrier &asked) const {
    typename Epilogue::Row::Held held;
    if (exists)
      held.load(epilogue.rowAt(row));
    if (laneIndex() == 0)
      arrive(asked);
    return held;
  }
  KILN_DEVICE Operands computeRows(int firstRow) const { return compute(firstRow + int(laneIndex()) / kLanes); }

  /// The operands of a row for each lane.
  KILN_DEVICE Operands receive(int wanted, u32 stamp) const {
    const int row = min(wanted, lastRow);
    StampedPair pair{};
    bool has = false;
    if (seesOtherBlocks())
      for (u32 peeks = 0; !has && isPatient(peeks); ++peeks) {
        if (peeks > 0)
          retry();
        pair = peek(words(row));
        has = pair.has(stamp);
      }
    Operands own{pair.first.value, pair.second.value};
    for (u32 missing = ballot(!has); missing != 0; missing &= missing - 1) {
      const u32 lane = firstBit(missing);
      const Operands computed = compute(shuffle(row, lane));
      if (laneIndex() == lane)
        own = computed;
    }
    return own;
  }
};

} // namespace kiln
