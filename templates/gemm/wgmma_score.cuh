//===- wgmma_score.cuh - log-probabilities of tokens, logits in registers only -------------===//
//
// The product of wgmma_tiled.cuh, whose columns are the vocabulary. Its sums, the logits, are not stored: for each row
// the kernel finds the log-probability of the row's target, the best token and that one's log-probability
// (norm/row_score.cuh).
//
// Method: a thread scores its columns of a row, the four threads of the row merge their scores, and one of them writes
// the row's part for the tile to memory. A warp has all columns of its rows. The last warp to arrive of those that
// have the same rows merges the parts of all tiles, always in the same order. With two teams or more all that happens
// while the tensor cores multiply another team's tile.
//
// Launch, maps, shared memory and Config: as in wgmma_tiled.cuh. Columns of the weight from kCols on are no tokens.
//
// Memory: parts, of scorePartsBytes. arrivals: 4 · kConsumers counters for each kTileM rows, zero before and after.
//
// Epilogue: as in norm/score_rows.cuh.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "device/atomic.cuh"
#include "device/warp.cuh"
#include "gemm/wgmma_tiled.cuh"
#include "norm/row_score.cuh"

namespace kiln {

/// Bytes of the parts: a score for each row and each tile along the columns.
template <class Config> KILN_DEVICE constexpr i64 scorePartsBytes(i64 rows) {
  return rows * ceilDiv(Config::kCols, Config::kTileN) * i64(sizeof(RowScore));
}

template <class Config, class T> constexpr SharedBytes kWgmmaScoreShared = kWgmmaTiledShared<Config, T>;

/// What a consumer does with the sums of its tiles.
template <class Config, class T, class Epilogue> struct WgmmaScore {
  using Tiled = WgmmaTiled<Config, T>;
  using Shape = WgmmaTiledShape<Config, T>;
  static constexpr int kRowTiles = Shape::kRowTiles, kColumns = Tiled::kGroups * 8; // of a thread

  const Tiled &tiled;
  RowScore *parts;
  u32 *arrivals;
  const Epilogue &epilogue;

  /// The score of the thread's columns of its row i. kWhole: all of them are tokens.
  template <bool kWhole>
  KILN_DEVICE static RowScore scoreOf(const typename Tiled::Sums (&sums)[kRowTiles], int i, int col, int target) {
    auto offsetOf = [](int column) { return column / 8 * 32 + column % 8; };
    float logits[kColumns];
#pragma unroll
    for (int column = 0; column < kColumns; ++column) {
      const float logit = sums[i / 2].tiles[column / 2].values[i % 2 * 2 + column % 2];
      logits[column] = kWhole || offsetOf(column) < Config::kCols - col ? logit : -infinity();
    }
    return RowScore::of(logits, col, offsetOf, target);
  }

  /// The part of a row for tile n along the columns.
  KILN_DEVICE RowScore &part(int n, int row) const { return parts[i64(n) * tiled.rows + row]; }

  /// Writes the parts of the warp's rows.
  template <bool kWhole>
  KILN_DEVICE void writeParts(const typename Tiled::Sums (&sums)[kRowTiles], int n,
                              typename Tiled::ThreadPlace at) const {
#pragma unroll
    for (int i = 0; i < Tiled::kThreadRows; ++i) {
      const int row = at.rowOf(i);
      const RowScore own = scoreOf<kWhole>(sums, i, at.col, epilogue.target(min(row, tiled.rows - 1)));
      const RowScore score = own.mergedWithLane(1).mergedWithLane(2);
      if (laneIndex() % 4 == 0 && row < tiled.rows)
        part(n, row) = score;
    }
  }

  /// Merges the parts of the warp's rows, of which `first` is the first. Two lanes share a row: one has the even tiles
  /// along the columns, the other the odd ones.
  KILN_DEVICE void mergeParts(int first) const {
#pragma unroll 1
    for (int tile = 0; tile < kRowTiles; ++tile) {
      const int row = first + tile * 64 + int(laneIndex()) % 16, known = min(row, tiled.rows - 1);
      RowScore score = RowScore::none();
#pragma unroll 8
      for (int n = int(laneIndex()) / 16; n < Shape::kTilesN; n += 2)
        score = RowScore::merged(score, part(n, known));
      score = score.mergedWithLane(16);
      if (laneIndex() < 16 && row < tiled.rows)
        epilogue(score.finish(epilogue.target(row), Config::kCols), row);
    }
  }

  /// Whether this warp is the last to write parts of its rows.
  KILN_DEVICE bool arrivesLast(int m, int consumer) const {
    u32 *counter = arrivals + (m * Shape::kConsumers + consumer) * 4 + int(warpIndex()) % 4;
    syncWarp();
    u32 earlier = 0;
    if (laneIndex() == 0)
      earlier = arrive(counter);
    const bool isLast = shuffle(earlier, 0) == u32(Shape::kTilesN - 1);
    if (isLast && laneIndex() == 0)
      *counter = 0;
    syncWarp();
    return isLast;
  }

  KILN_DEVICE void operator()(typename Tiled::Sums (&sums)[kRowTiles], u32 last, TilePlace place,
                              typename Tiled::ThreadPlace at) const {
    waitProducts<0>(sums);
    tiled.release(last);
    receive(sums);
    if (Shape::kColsAreExact || place.n + 1 < Shape::kTilesN)
      writeParts<true>(sums, place.n, at);
    else
      writeParts<false>(sums, place.n, at);
    const int first = at.row - int(laneIndex()) / 4;
    if (arrivesLast(place.m, first % Shape::kM / Shape::kConsumerM))
      mergeParts(first);
  }
};

/// The kernel's body.
template <class Config, class T, class Epilogue>
KILN_DEVICE void wgmmaScore(int rows, const TensorMap &a, const TensorMap &weight, RowScore *parts, u32 *arrivals,
                            const Epilogue &epilogue) {
  const WgmmaTiled<Config, T> thread{dynamicShared<WgmmaTiledStorage<Config, T>>(), a, weight, rows};
  runWgmmaTiled(thread, WgmmaScore<Config, T, Epilogue>{thread, parts, arrivals, epilogue});
}

} // namespace kiln
