//===- row_operands.cuh - what an epilogue reads once for each row ---------------===//
//
// An epilogue that reads its operands ahead (Epilogue::Operands) may also read operands of which a row has one element,
// such as the statistics of a layer normalisation:
//
//   struct RowOperands;
//   RowOperands rowOperands(int row) const;
//   template <int V>
//   void operator()(Vec<float, V> product, const Operands<V> &with, const RowOperands &of, int row, int col) const;
//
// A template then loads them once for each of a thread's rows. Epilogues without RowOperands have the last function
// without `of`.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "device/base.cuh"
#include "device/vec.cuh"

namespace kiln {

template <class> struct Exists {
  using Type = void;
};

/// Of an epilogue without RowOperands.
template <class Epilogue, class = void> struct RowOperandsOf {
  static constexpr bool kExists = false;
  struct Type {};
  KILN_DEVICE static Type load(const Epilogue &, int) { return {}; }
  template <int V, class Operands>
  KILN_DEVICE static void apply(const Epilogue &epilogue, Vec<float, V> product, const Operands &with, const Type &,
                                int row, int col) {
    epilogue(product, with, row, col);
  }
};

template <class Epilogue> struct RowOperandsOf<Epilogue, typename Exists<typename Epilogue::RowOperands>::Type> {
  static constexpr bool kExists = true;
  using Type = typename Epilogue::RowOperands;
  KILN_DEVICE static Type load(const Epilogue &epilogue, int row) { return epilogue.rowOperands(row); }
  template <int V, class Operands>
  KILN_DEVICE static void apply(const Epilogue &epilogue, Vec<float, V> product, const Operands &with, const Type &of,
                                int row, int col) {
    epilogue(product, with, of, row, col);
  }
};

} // namespace kiln
