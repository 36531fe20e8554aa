//===- row_reduction.cuh - one number of each row -------------------------------===//
//
// Sums term(row, col) over the kCols columns of a row and passes the sum to the epilogue, as for the mean or the
// variance of a row. It is a rung of the ladder of layer normalisation, which norm/layernorm.cuh does in one kernel.
//
// Method: one block per row. Each thread sums every kThreads-th term (coarsening), then a tree in shared memory adds
// the threads' sums, halving their number at each step (Harris: Optimizing Parallel Reduction in CUDA, 2007).
//
// Launch: grid rows, block kThreads.
//
// Shared memory: 4 · kThreads bytes. Registers: about 20.
//
// Config:
//   kCols       length of a row
//   kThreads    a power of two from 32
//
// Input:      float operator()(int row, int col) const
// Epilogue:   void operator()(float sum, int row) const, called once a row
//
//===----------------------------------------------------------------------===//
#pragma once

#include "device/base.cuh"
#include "device/block.cuh"
#include "device/index.cuh"
#include "device/math.cuh"
#include "device/shared.cuh"
#include "shape.cuh"

namespace kiln {

template <class Config> struct RowReductionStorage {
  float sums[Config::kThreads];
};

template <class Config>
constexpr SharedBytes kRowReductionShared = {sizeof(RowReductionStorage<Config>), 0};

/// The kernel's body.
template <class Config, class Input, class Epilogue>
KILN_DEVICE void rowReduction(const Input &term, const Epilogue &epilogue) {
  static_assert(isPowerOfTwo(Config::kThreads) && Config::kThreads >= 32, "halves, down to one thread");
  const int row = int(blockIndexX()), thread = int(threadIndex());
  auto &sums = sharedStorage<RowReductionStorage<Config>>().sums;
  float share = 0;
  for (int col = thread; col < Config::kCols; col += Config::kThreads)
    share += term(row, col);
  sums[thread] = share;
  syncThreads();
  for (int half = Config::kThreads / 2; half > 0; half /= 2) {
    if (thread < half)
      sums[thread] += sums[thread + half];
    syncThreads();
  }
  if (thread == 0)
    epilogue(sums[0], row);
}

} // namespace kiln
