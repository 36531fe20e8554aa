//===- softmax.cuh - softmax of rows -------------------------------------------===//
//
// out[row, c] = exp(x[row, c] − max) / Σ exp(x[row, ·] − max) over `cols` columns, known at run time, in
// fp32. Elements that are −inf get 0, and a row of nothing else gets zeros. Input must not write: it is
// called twice an element (kOnline: one pass for largest and sum together, norm/online_softmax.cuh) or three
// times (largest; sum; result).
//
// Launch: grid ceildiv(rows, kThreads / kRowThreads), block kThreads.
//
// Thread i of a row's kRowThreads has its vectors i, i + kRowThreads, …, of which it holds one at a time.
// About 32 registers; shared memory only for the reductions where a row has a block.
//
// Config:
//   kThreads      threads of a block, a multiple of 32
//   kRowThreads   threads of a row: 1, 32 (a warp) or kThreads (the block)
//   kVec          elements of an access: 1, 2, 4 or 8; `cols` must be a multiple of it
//   kOnline       two passes rather than three
//
// Input:
//   template <int V> Vec<float, V> load(int row, int col) const;
//   int visible(int row) const;
//     Optional: columns from there on are masked, and are not read but for the rest of a vector.
//
// Epilogue:
//   template <int V> void operator()(Vec<float, V> probability, int row, int col) const;
//     Every column, the masked ones too.
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

  /// Columns of the row before its first masked one: an int fits the first of the two better, if an input says so.
  template <class I>
  KILN_DEVICE static auto visibleCols(const I &input, int row, int cols, int) -> decltype(int(input.visible(row))) {
    return min(input.visible(row), cols);
  }
  template <class I> KILN_DEVICE static int visibleCols(const I &, int, int cols, long) { return cols; }

  /// The scores of a vector; masked ones are −inf.
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

  /// Largest score of the row and sum over it, the same for all threads of the row.
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
