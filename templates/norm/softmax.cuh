//===- softmax.cuh - softmax of rows -------------------------------------------===//
//
// out[row, c] = exp(x[row, c] − max) / Σ exp(x[row, ·] − max) over `cols` columns, known at run time, in fp32. Elements
// of −inf give 0, and a row of only −inf gives zeros. Input must not write: it is called three times per element
// (maximum; sum; result), or with kOnline twice (one pass for maximum and sum, norm/online_softmax.cuh).
//
// Launch: grid ceildiv(rows, kThreads / kRowThreads), block kThreads.
//
// Thread i of a row's kRowThreads has its vectors i, i + kRowThreads, …, and holds one of them at a time. About 32
// registers. Shared memory is used only by the reductions, if a row has a block.
//
// Config:
//   kThreads      threads of a block, a multiple of 32
//   kRowThreads   threads of a row: 1, 32 (a warp) or kThreads (the block)
//   kVec          elements of an access: 1, 2, 4 or 8; `cols` must be a multiple of it
//   kOnline       two passes instead of three
//
// Input:
//   template <int V> Vec<float, V> load(int row, int col) const;
//   int visible(int row) const;
//     Optional: columns from this one on are masked. They are not read, except in the rest of a vector.
//
// Epilogue:
//   template <int V> void operator()(Vec<float, V> probability, int row, int col) const;
//     Called for every column, also for masked ones.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "device/base.cuh"
#include "device/shared.cuh"
#include "device/vec.cuh"
#include "norm/online_softmax.cuh"
#include "norm/row_threads.cuh"
#include "shape.cuh"

namespace kiln {

template <class Config, class Input> struct SoftmaxRow {
  using Threads = RowThreads<Config::kThreads, Config::kRowThreads>;
  static constexpr int V = Config::kVec;

  const Input &input;
  const int row, visible;

  /// The number of columns before the first masked one. Overload resolution prefers the first of the two, which takes
  /// an int, if the input has `visible`.
  template <class I>
  KILN_DEVICE static auto visibleCols(const I &input, int row, int cols, int) -> decltype(int(input.visible(row))) {
    return min(input.visible(row), cols);
  }
  template <class I> KILN_DEVICE static int visibleCols(const I &, int, int cols, long) { return cols; }

  /// The scores of a vector, with −inf for masked ones.
  KILN_DEVICE Vec<float, V> scores(int col) const {
    if (col >= visible)
      return Vec<float, V>::fill(-infinity());
    Vec<float, V> x = input.template load<V>(row, col);
    for (int v = 0; v < V; ++v)
      x[v] = col + v < visible ? x[v] : -infinity();
    return x;
  }

  /// Calls body(col) for every vector of the thread that starts before `end`.
  template <class Body> KILN_DEVICE static void forEachVector(int end, Body body) {
    for (int col = Threads::index() * V; col < end; col += Config::kRowThreads * V)
      body(col);
  }

  /// The row's maximum and sum; all threads of the row get the same.
  KILN_DEVICE OnlineSoftmax normalizer() const {
    OnlineSoftmax own, whole;
    if constexpr (Config::kOnline) {
      forEachVector(visible, [&](int col) { add(own, scores(col)); });
      whole.max = Threads::max(own.max);
      own.raise(whole.max);
    } else {
      forEachVector(visible, [&](int col) { own.max = fmax(own.max, scores(col).max()); });
      own.max = whole.max = Threads::max(own.max);
      forEachVector(visible, [&](int col) { own.sum += weights(own, scores(col)).sum(); });
    }
    whole.sum = Threads::sum(own.sum);
    return whole;
  }

  KILN_DEVICE static void add(OnlineSoftmax &softmax, const Vec<float, V> &scores) {
    softmax.raise(scores.max());
    softmax.sum += weights(softmax, scores).sum();
  }
  KILN_DEVICE static Vec<float, V> weights(const OnlineSoftmax &softmax, const Vec<float, V> &scores) {
    return scores.map([&](float score) { return softmax.weight(score); });
  }
};

template <class Config>
constexpr SharedBytes kSoftmaxShared = {RowThreads<Config::kThreads, Config::kRowThreads>::kSharedBytes, 0};

/// The kernel's body.
template <class Config, class Input, class Epilogue>
KILN_DEVICE void softmax(int rows, int cols, const Input &input, const Epilogue &epilogue) {
  using Row = SoftmaxRow<Config, Input>;
  const int row = Row::Threads::row();
  if (row >= rows)
    return;
  const Row x{input, row, Row::visibleCols(input, row, cols, 0)};
  const OnlineSoftmax normalizer = x.normalizer();
  const float scale = softmaxScale(normalizer.sum);
  x.forEachVector(cols, [&](int col) { epilogue(x.weights(normalizer, x.scores(col)) * scale, row, col); });
}

} // namespace kiln
