//===- epilogue.cuh - what epilogues of products read and hand out by rows --------===//
//
// An epilogue that reads its operands ahead (Epilogue::Operands) may also read operands of which a row has one element,
// such as the statistics of a layer normalisation:
//
//   struct RowOperands;
//   template <int kLanes> RowOperands rowOperands(int row) const;
//     Called by kLanes lanes side by side, 4 or 8, which all get them.
//   template <int V>
//   void operator()(Vec<float, V> product, const Operands<V> &with, const RowOperands &of, int row, int col) const;
//
// A template then loads them once for each of a thread's rows. Epilogues without RowOperands have the last function
// without `of`. What is computed, not loaded, can be shared by all blocks: row_mail.cuh.
//
// Operands that are the same in all rows may say so, so that a template loads them once for several:
//
//   template <int V> struct Operands { static constexpr bool kOfColumns = true; … };
//
// And it may hand out statistics of its results, by groups of 8 columns (norm/group_statistics.cuh):
//
//   using Grouped = bf16;                                            the type that results are stored in
//   void group(GroupStatistics statistics, int row, int index) const;  of columns 8 index .. 8 index + 7
//
// Then operator() returns the result, and a thread has the 8 columns of a group at a time, or the four threads of a
// quad have two each.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "device/base.cuh"
#include "device/index.cuh"
#include "device/vec.cuh"
#include "norm/group_statistics.cuh"
#include "norm/row_of_warp.cuh"

namespace kiln {

template <class> struct Exists {
  using Type = void;
};

/// Of an epilogue without RowOperands.
template <class Epilogue, class = void> struct RowOperandsOf {
  static constexpr bool kExists = false;
  struct Type {};
  template <int kLanes = 4> KILN_DEVICE static Type load(const Epilogue &, int) { return {}; }
  template <int V, class Operands>
  KILN_DEVICE static auto apply(const Epilogue &epilogue, Vec<float, V> product, const Operands &with, const Type &,
                                int row, int col) {
    return epilogue(product, with, row, col);
  }
};

template <class Epilogue> struct RowOperandsOf<Epilogue, typename Exists<typename Epilogue::RowOperands>::Type> {
  static constexpr bool kExists = true;
  using Type = typename Epilogue::RowOperands;
  template <int kLanes = 4> KILN_DEVICE static Type load(const Epilogue &epilogue, int row) {
    return epilogue.template rowOperands<kLanes>(row);
  }
  template <int V, class Operands>
  KILN_DEVICE static auto apply(const Epilogue &epilogue, Vec<float, V> product, const Operands &with, const Type &of,
                                int row, int col) {
    return epilogue(product, with, of, row, col);
  }
};

/// The type in which an epilogue that hands out statistics stores its results; void of others.
template <class Epilogue, class = void> struct GroupedBy {
  using Type = void;
  static constexpr bool kExists = false;
};
template <class Epilogue> struct GroupedBy<Epilogue, typename Exists<typename Epilogue::Grouped>::Type> {
  using Type = typename Epilogue::Grouped;
  static constexpr bool kExists = true;
};

/// Whether the operands of a vector of columns are the same in all rows.
template <class Operands, class = void> struct AreOfColumns {
  static constexpr bool kValue = false;
};
template <class Operands> struct AreOfColumns<Operands, typename Exists<decltype(Operands::kOfColumns)>::Type> {
  static constexpr bool kValue = Operands::kOfColumns;
};

/// Passes columns col .. col + V of a row of the product to the epilogue, unless they lie past an end (`exists`). All
/// lanes of a warp call this together; if V is 2, those of a quad have 8 neighbouring columns of one row.
template <int V, class Epilogue, class Operands, class RowOperands>
KILN_DEVICE void passProduct(const Epilogue &epilogue, const Vec<float, V> &product, const Operands &with,
                             const RowOperands &of, int row, int col, bool exists) {
  using OfRow = RowOperandsOf<Epilogue>;
  if constexpr (GroupedBy<Epilogue>::kExists) {
    static_assert(V == 8 || V == 2, "a thread or a quad has the columns of a group");
    Vec<float, V> result{};
    if (exists)
      result = rounded<typename GroupedBy<Epilogue>::Type>(OfRow::apply(epilogue, product, with, of, row, col));
    const GroupStatistics statistics = groupStatistics(result);
    if (exists && (V == 8 || laneIndex() % 4 == 0))
      epilogue.group(statistics, row, col / kGroupColumns);
  } else if (exists) {
    OfRow::apply(epilogue, product, with, of, row, col);
  }
}

} // namespace kiln
