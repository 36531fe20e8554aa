//===- rows.cuh - sums of rows over all ranks, and their statistics --------------------------===//
//
// As exchange.cuh for few values, whose results are rows of which statistics are needed: a block has whole rows, so
// many at a time as its threads have vectors of. It leaves the results in shared memory, where a warp computes the
// statistics of a row, with the bits that slices.cuh gives it. Every rank does the same.
//
// Launch: grid of any size up to kBlocks, block kThreads.
//
// Shared memory: kCols elements for each row at a time.
//
// Config:
//   kRanks      ranks, 2 or more
//   kCols       elements of a row, a multiple of 8
//   kBlocks     most blocks of a launch
//   kThreads    threads of a block, at most kInboxThreads, whole warps
//
// Body: as exchange/row_body.cuh has it, with statistics and
//   template <int V> Vec<float, V> load(i64 index) const;
//     This rank's elements index .. index + V.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "device/shared.cuh"
#include "exchange/row_body.cuh"
#include "exchange/thread_exchange.cuh"
#include "norm/row_of_warp.cuh"
#include "shape.cuh"

namespace kiln {

/// Rows that a block has at a time.
template <class Config>
constexpr int kRowsOfExchange =
    Config::kThreads * kInboxVec < Config::kCols ? 1 : Config::kThreads * kInboxVec / Config::kCols;

template <class Config, class T> struct ExchangeRowsStorage {
  alignas(16) T rows[kRowsOfExchange<Config>][Config::kCols];
};

template <class Config, class T>
constexpr SharedBytes kExchangeRowsShared = {sizeof(ExchangeRowsStorage<Config, T>), 0};

/// The kernel's body.
template <class Config, class Body>
KILN_DEVICE void exchangeRows(int rows, const Exchange<Config::kRanks> &ranks, const Body &body) {
  constexpr int V = kInboxVec, kCols = Config::kCols, kVectors = kCols / V, kRows = kRowsOfExchange<Config>;
  static_assert(Config::kThreads <= kInboxThreads && kCols % V == 0 && Config::kRanks > 1);
  using T = typename Body::Row;
  auto &shared = sharedStorage<ExchangeRowsStorage<Config, T>>();
  ThreadExchange<Config::kRanks> exchange(ranks);
  for (int first = int(blockIndexX()) * kRows; first < rows; first += int(gridBlocksX()) * kRows) {
    const int count = min(kRows, rows - first);
    for (int vector = int(threadIndex()); vector < count * kVectors; vector += Config::kThreads) {
      const int own = vector / kVectors, row = first + own, col = vector % kVectors * V;
      const auto with = body.template operands<V>(row, col);
      const auto parts = exchange(body.template load<V>(i64(row) * kCols + col));
      storeShared(&shared.rows[own][col], body(parts.sum(), with, row, col));
    }
    syncThreads();
    for (int own = int(warpIndex()); own < count; own += Config::kThreads / int(kWarpSize)) {
      const RowOfWarp<T, kCols, 1> results(shared.rows[own]);
      passStatistics(body, results, first + own);
    }
    syncThreads();
  }
  exchange.end();
}

} // namespace kiln
