//===- wgmma_epilogue.cuh - a consumer of wgmma_tiled.cuh passes its sums on ----------===//
//
// The sums of a tile go to the epilogue group by group of columns, each with what the epilogue reads for it. If there
// are registers for all of that, it is loaded before the first products. Else the loads are a group or two ahead of the
// stores. That hides less of their time: ptxas computes with loaded values as soon as it can, before it stores the
// group in front, and so each group waits for L2.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "device/base.cuh"
#include "device/index.cuh"
#include "device/vec.cuh"
#include "epilogue.cuh"
#include "gemm/tile_order.cuh"
#include "gemm/wgmma_mail.cuh"

namespace kiln {

/// What a consumer does with its sums: it passes them to the epilogue.
template <class Tiled, class Epilogue> struct WgmmaTiledEnd {
  using Shape = typename Tiled::Shape;
  using Place = typename Tiled::ThreadPlace;
  using Sums = typename Tiled::Sums;
  using OfRow = RowOperandsOf<Epilogue>;
  static constexpr int kGroups = Tiled::kGroups, kThreadRows = Tiled::kThreadRows;
  static constexpr int V = Tiled::V, kVectors = Tiled::kVectors;

  const Tiled &tiled;
  const Epilogue &epilogue;

  //===--- operands of rows

  KILN_DEVICE void beforeFirstTurn() const {
    if constexpr (Shape::kTeamsReadRows) {
      const int warp = int(warpIndex()) - 4 * (1 + Shape::kConsumers);
      WgmmaMail<typename Tiled::Settings, Tiled, Epilogue>{tiled, epilogue, warp}.computeHeldRows();
    }
  }

  /// What the epilogue reads of a thread's rows: loaded before the tile, or in shared memory when it is needed.
  struct OfRows {
    typename OfRow::Type rows[kThreadRows];
    KILN_DEVICE const auto &operator[](int i) const { return rows[i]; }
  };
  template <bool kWhole> struct MailOfRows {
    const Tiled &tiled;
    int team;
    TilePlace place;
    Place at;
    KILN_DEVICE auto operator[](int i) const {
      const u32 first = kWhole || !Tiled::kMayBeginEarlier ? u32(Tiled::tightly(at.row)) % u32(Shape::kM)
                                                           : u32(at.row - tiled.block.firstRow(place.m));
      const Vec<float, 2> &operands = tiled.shared.mail.ofRows[team][first + u32(Place{}.rowOf(i))];
      return typename OfRow::Type{operands[0], operands[1]};
    }
  };

  //===--- operands of elements

  using Operands = typename Epilogue::template Operands<V>;
  /// Rows of a thread that have operands of their own.
  static constexpr int kRows = AreOfColumns<Operands>::kValue ? 1 : kThreadRows;
  static constexpr int kOperandRegisters = int(sizeof(Operands) / sizeof(u32)) * kGroups * kRows * kVectors;
  /// Registers beside the sums, without those that the epilogue computes with: ptxas takes more the more rows a thread
  /// has, and spills before it has all of 240. Two small blocks of clusters may share a multiprocessor.
  static constexpr bool kMayBeTwo = Tiled::Cluster::kBlocks > 1 && !Shape::kMovesRegisters;
  static constexpr int kFreeRegisters =
      (kMayBeTwo ? 128 : min(Shape::kConsumerRegisters, 224)) - Shape::kSums - (40 + 8 * kThreadRows);
  /// Whether all operands of a tile are loaded before its first products.
  static constexpr bool kIsHeld = kOperandRegisters <= kFreeRegisters;
  /// How many groups they are loaded ahead: all, or else one, or two in wide tiles whose operands take few registers.
  /// Past an end, addresses take the registers; so do statistics beside many sums.
  static constexpr bool kHasStatistics = OfRow::kExists || GroupedBy<Epilogue>::kExists;
  static constexpr bool kIsLarge = Tiled::kIsTight || sizeof(typename Tiled::RangeSums) >= 160 * sizeof(float);
  static constexpr bool kIsWide = kGroups >= 6 && sizeof(Operands) * kVectors * kThreadRows <= 128;
  template <bool kWhole>
  static constexpr int kAhead = kIsHeld                                   ? kGroups
                                : kWhole && !(kHasStatistics && kIsLarge) ? min(kIsWide ? 2 : 1, kGroups)
                                                                          : 0;

  struct Loaded {
    Operands operands[kGroups][kRows][kVectors];
  };

  template <bool kWhole> KILN_DEVICE void load(Loaded &loaded, Place at, int group) const {
#pragma unroll
    for (int i = 0; i < kRows; ++i)
#pragma unroll
      for (int vector = 0; vector < kVectors; ++vector)
        loaded.operands[group][i][vector] =
            tiled.template operandsAt<kWhole>(epilogue, at, at.rowOf(i), Tiled::tightly(at.colOf(group, vector)));
  }

  //===--- a tile

  /// What is loaded before the first products.
  struct Prepared {
    Loaded held;
    OfRows ofRows;
  };
  KILN_DEVICE Prepared prepare(Place at) const {
    Prepared prepared{};
    if constexpr (kIsHeld)
#pragma unroll
      for (int group = 0; group < kGroups; ++group)
        load<false>(prepared.held, at, group);
    if constexpr (!Shape::kMails) // else they come while the tensor cores multiply
#pragma unroll
      for (int i = 0; i < kThreadRows; ++i)
        prepared.ofRows.rows[i] = OfRow::load(epilogue, min(at.rowOf(i), tiled.rows - 1));
    return prepared;
  }

  KILN_DEVICE void finish(Sums &sums, u32 last, const Prepared &prepared, int i, TilePlace place, Place at) const {
    if constexpr (Shape::kMails)
      tiled.waitForMail(i);
    if (tiled.isWhole(place))
      pass<true>(sums, last, prepared.held, ofRows<true>(prepared, i, place, at), at);
    else
      pass<false>(sums, last, prepared.held, ofRows<false>(prepared, i, place, at), at);
    if constexpr (Shape::kMails)
      tiled.releaseMail(i);
  }
  template <bool kWhole>
  KILN_DEVICE decltype(auto) ofRows(const Prepared &prepared, int i, TilePlace place, Place at) const {
    if constexpr (Shape::kMails)
      return MailOfRows<kWhole>{tiled, i % Shape::kTeams, place, at};
    else
      return (prepared.ofRows);
  }

  /// Passes the sums to the epilogue when the last products have ended. kWhole: Tiled::isWhole.
  template <bool kWhole, class Rows>
  KILN_DEVICE void pass(Sums &sums, u32 last, Loaded loaded, const Rows &ofRows, Place at) const {
    if constexpr (!kIsHeld)
#pragma unroll
      for (int group = 0; group < kAhead<kWhole>; ++group)
        load<kWhole>(loaded, at, group);
    tiled.finishRange(sums, last);
#pragma unroll
    for (int group = 0; group < kGroups; ++group) {
      if (group + kAhead<kWhole> < kGroups)
        load<kWhole>(loaded, at, group + kAhead<kWhole>);
      store<kWhole>(sums, loaded, ofRows, at, group);
    }
  }

  template <bool kWhole, class Rows>
  KILN_DEVICE void store(const Sums &sums, const Loaded &loaded, const Rows &ofRows, Place at, int group) const {
#pragma unroll
    for (int i = 0; i < kThreadRows; ++i)
#pragma unroll
      for (int vector = 0; vector < kVectors; ++vector) {
        const int row = at.rowOf(i), col = at.colOf(group, vector);
        passProduct(epilogue, Tiled::template product<V>(sums.total(), group, i, vector),
                    loaded.operands[group][kRows == 1 ? 0 : i][vector], ofRows[i], row, col,
                    tiled.template exists<kWhole>(at, row, col));
      }
  }
};

} // namespace kiln
