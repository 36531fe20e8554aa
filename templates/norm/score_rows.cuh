//===- score_rows.cuh - log-probabilities of rows of logits in memory ----------------===//
//
// For each row of kCols logits: the log-probability of its target, the best token and that one's log-probability
// (norm/row_score.cuh). The logits are read once.
//
// Launch: grid rows, block kThreads; a block a row. Shared memory: a score for each warp.
//
// Config:
//   kCols       logits of a row
//   kThreads    a multiple of 32
//   kUnroll     logits that a thread loads at a time
//
// Input:
//   float operator()(int row, int col) const;
//
// Epilogue:
//   int target(int row) const;
//   void operator()(const TokenScores &scores, int row) const;
//     One thread calls it.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "device/block.cuh"
#include "device/shared.cuh"
#include "norm/row_score.cuh"

namespace kiln {

template <class Config> constexpr SharedBytes kScoreRowsShared = {sizeof(BlockScratch<RowScore>), 0};

/// The kernel's body.
template <class Config, class Input, class Epilogue>
KILN_DEVICE void scoreRows(const Input &input, const Epilogue &epilogue) {
  constexpr int kThreads = Config::kThreads, kUnroll = Config::kUnroll, kWarps = kThreads / int(kWarpSize);
  static_assert(kThreads % int(kWarpSize) == 0 && kThreads <= 1024, "a block is whole warps, 1024 threads at most");
  const int row = int(blockIndexX()), target = epilogue.target(row);
  RowScore score = RowScore::none();
  for (int first = int(threadIndex()); first < Config::kCols; first += kUnroll * kThreads) {
    auto offsetOf = [](int i) { return i * kThreads; };
    float logits[kUnroll];
#pragma unroll
    for (int i = 0; i < kUnroll; ++i)
      logits[i] = first + offsetOf(i) < Config::kCols ? input(row, first + offsetOf(i)) : -infinity();
    score.add(logits, first, offsetOf, target);
  }
#pragma unroll
  for (u32 distance = kWarpSize / 2; distance > 0; distance /= 2)
    score = score.mergedWithLane(distance);
  auto &warps = sharedStorage<BlockScratch<RowScore>>().warps;
  if (laneIndex() == 0)
    warps[warpIndex()] = score;
  syncThreads();
  if (threadIndex() != 0)
    return;
  for (int warp = 1; warp < kWarps; ++warp)
    score = RowScore::merged(score, warps[warp]);
  epilogue(score.finish(target, Config::kCols), row);
}

} // namespace kiln
