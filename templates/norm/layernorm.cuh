//===- layernorm.cuh - layer normalisation of rows ----------------------------===//
//
// out[row, :] = normalize(x[row, :], mean, rstd) with the statistics of norm/row_statistics.cuh, in fp32. Input reads
// x, and Epilogue stores the result. The two passes over the deviations that are defined there take one pass over
// memory: the threads that read a row hold it between the passes, and call Input exactly once per element. So Input may
// also compute and store what precedes the normalisation, such as a residual addition.
//
// Launch: grid ceildiv(rows, kThreads / kRowThreads), block kThreads.
//
// Which thread holds what: thread i of a row's kRowThreads has its vectors i, i + kRowThreads, …: up to 64 elements per
// thread in registers, otherwise in shared memory (4 · kCols bytes per row of the block). kRowThreads = 1, the lowest
// rung of the ladder, holds nothing: it calls Input three times per element, so Input must not overwrite what it reads.
//
// Config:
//   kCols         length of a row
//   kThreads      threads of a block, a multiple of 32
//   kRowThreads   threads of a row: 1, 32 (a warp) or kThreads (the block)
//   kVec          elements of an access: 1, 2, 4 or 8, a divisor of kCols
//   kOnePass      optional: the variance is E[x²] − E[x]², from one pass over the row. It saves a reduction, but
//                 loses all digits if the mean is large compared with the deviation
//
// Input:
//   static constexpr float kEps;
//   template <int V> Vec<float, V> load(int row, int col) const;
//   template <int V> Vec<float, V> normalize(Vec<float, V> x, RowStatistics s, int col) const;
//
// Epilogue:
//   template <int V> void operator()(Vec<float, V> normalized, int row, int col) const;
//
//===----------------------------------------------------------------------===//
#pragma once

#include "device/base.cuh"
#include "device/shared.cuh"
#include "device/vec.cuh"
#include "norm/row_statistics.cuh"
#include "norm/row_threads.cuh"
#include "shape.cuh"

namespace kiln {

template <class Config> struct LayerNormShape {
  using Threads = RowThreads<Config::kThreads, Config::kRowThreads>;
  static constexpr int kVec = Config::kVec;
  static constexpr int kVectors = Config::kCols / kVec;
  static constexpr int kSlots = ceilDiv(kVectors, Config::kRowThreads); // vectors of a thread
  static constexpr bool kIsExact = kVectors % Config::kRowThreads == 0;
  static constexpr bool kHolds = Config::kRowThreads > 1;
  static constexpr bool kInRegisters = kHolds && kSlots * kVec <= 64;
  static constexpr bool kInShared = kHolds && !kInRegisters;

  static_assert(Config::kCols % kVec == 0, "kVec divides kCols");
  static_assert(!kInShared || Threads::kRowsPerBlock * Config::kCols * int(sizeof(float)) <= kStaticSharedBytes,
                "the block's rows fit in shared memory: fewer threads, or a block a row");
};

template <class Config> struct LayerNormStorage {
  alignas(32) float rows[LayerNormShape<Config>::Threads::kRowsPerBlock][Config::kCols];
};

/// One thread's work on its row.
template <class Config, class Input> struct LayerNorm {
  using Shape = LayerNormShape<Config>;
  using Threads = typename Shape::Threads;
  static constexpr int V = Shape::kVec;

  const Input &input;
  const int row;
  Vec<float, V> held[Shape::kInRegisters ? Shape::kSlots : 1];

  KILN_DEVICE static int col(int slot) { return (Threads::index() + slot * Config::kRowThreads) * V; }
  KILN_DEVICE static bool exists(int slot) { return Shape::kIsExact || col(slot) < Config::kCols; }
  KILN_DEVICE static float *sharedAt(int slot) {
    return sharedStorage<LayerNormStorage<Config>>().rows[Threads::rowInBlock()] + col(slot);
  }

  /// The vector of a slot: the first time from the input, later from registers or shared memory.
  KILN_DEVICE Vec<float, V> first(int slot) {
    const Vec<float, V> x = input.template load<V>(row, col(slot));
    if constexpr (Shape::kInRegisters)
      held[slot] = x;
    else if constexpr (Shape::kInShared)
      storeShared(sharedAt(slot), x);
    return x;
  }
  KILN_DEVICE Vec<float, V> again(int slot) const {
    if constexpr (Shape::kInRegisters)
      return held[slot];
    else if constexpr (Shape::kInShared)
      return load<V>(sharedAt(slot));
    else
      return input.template load<V>(row, col(slot));
  }

  /// The sum of value(slot) over all threads and slots of the row.
  template <class Value> KILN_DEVICE static float rowSum(Value value) {
    float sum = 0;
    forEachSlot([&](int slot) { sum += value(slot); });
    return Threads::sum(sum);
  }

  /// Unrolled if the row is in registers, which cannot be indexed at run time.
  template <class Body> KILN_DEVICE static void forEachSlot(Body body) {
#pragma unroll(Shape::kInRegisters ? Shape::kSlots : 1)
    for (int slot = 0; slot < Shape::kSlots; ++slot)
      if (exists(slot))
        body(slot);
  }
};

/// Config::kOnePass; false if Config has none. It is called with 0: overload resolution prefers the first of the two,
/// which takes an int, if Config has the setting.
template <class Config> KILN_DEVICE constexpr auto isOnePass(int) -> decltype(bool(Config::kOnePass)) {
  return Config::kOnePass;
}
template <class Config> KILN_DEVICE constexpr bool isOnePass(long) { return false; }

/// The statistics of a row that has not been read yet.
template <class Config, class Input> KILN_DEVICE RowStatistics statisticsOf(LayerNorm<Config, Input> &x) {
  using Row = LayerNorm<Config, Input>;
  if constexpr (isOnePass<Config>(0)) {
    float sum = 0, squares = 0;
    x.forEachSlot([&](int slot) {
      const auto value = x.first(slot);
      sum += value.sum();
      squares += (value * value).sum();
    });
    const float mean = Row::Threads::sum(sum) / float(Config::kCols);
    const float deviations = Row::Threads::sum(squares) - mean * mean * float(Config::kCols);
    return rowStatistics(mean, fmax(deviations, 0), Config::kCols, Input::kEps);
  } else {
    const float mean = x.rowSum([&](int slot) { return x.first(slot).sum(); }) / float(Config::kCols);
    const float squares = x.rowSum([&](int slot) { return squaredDeviation(x.again(slot), mean); });
    return rowStatistics(mean, squares, Config::kCols, Input::kEps);
  }
}

template <class Config>
constexpr SharedBytes kLayerNormShared = {
    LayerNormShape<Config>::Threads::kSharedBytes +
        (LayerNormShape<Config>::kInShared ? sizeof(LayerNormStorage<Config>) : 0),
    0};

/// The kernel's body.
template <class Config, class Input, class Epilogue>
KILN_DEVICE void layerNorm(int rows, const Input &input, const Epilogue &epilogue) {
  using Row = LayerNorm<Config, Input>;
  const int row = Row::Threads::row();
  if (row >= rows)
    return;
  Row x{input, row, {}};
  const RowStatistics statistics = statisticsOf(x);
  x.forEachSlot([&](int slot) {
    const int col = x.col(slot);
    epilogue(input.normalize(x.again(slot), statistics, col), row, col);
  });
}

} // namespace kiln
