//===- wgmma_score.cuh - log-probabilities of tokens, logits in registers only -------------===//
//
// The product of wgmma_tiled.cuh, whose columns are the vocabulary. Its sums, the logits, are not stored: for each row
// the kernel finds the log-probability of the row's target, the best token and that one's log-probability
// (norm/row_score.cuh).
//
// Method: a warp has all columns of its rows in a tile. It writes the scores of these rows to memory, a part for each
// tile along the columns (gemm/score_parts.cuh). The last warp to arrive of those that have the same rows merges all
// their parts. With two teams or more all that happens while the tensor cores multiply another team's tile.
//
// Launch, maps, shared memory and Config: as in wgmma_tiled.cuh. Columns of the weight from kCols on are no tokens.
//
// Memory: parts, of ceildiv(kCols, kTileN) scores a row. arrivals: 4 · kConsumers counters for each kTileM rows, zero
// before and after.
//
// Epilogue: as in norm/score_rows.cuh.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "device/atomic.cuh"
#include "device/warp.cuh"
#include "gemm/score_parts.cuh"
#include "gemm/wgmma_tiled.cuh"

namespace kiln {

template <class Config, class T> constexpr SharedBytes kWgmmaScoreShared = kWgmmaTiledShared<Config, T>;

/// What a consumer does with the sums of its tiles.
template <class Config, class T, class Epilogue> struct WgmmaScore {
  using Tiled = WgmmaTiled<Config, T>;
  using Shape = WgmmaTiledShape<Config, T>;
  using Sums = typename Tiled::Sums[Shape::kRowTiles];

  const Tiled &tiled;
  ScoreParts<Config::kCols, Shape::kTilesN> parts;
  u32 *arrivals;
  const Epilogue &epilogue;

  /// Writes the parts of the warp's rows for a tile.
  template <bool kWhole>
  KILN_DEVICE void writeParts(const Sums &sums, int part, typename Tiled::ThreadPlace at) const {
#pragma unroll
    for (int i = 0; i < Tiled::kThreadRows; ++i) {
      const int row = at.rowOf(i), target = epilogue.target(min(row, tiled.rows - 1));
      parts.template write<kWhole, Tiled::kGroups * 8>(part, row, at.col, target, [&](int column) {
        return sums[i / 2].tiles[column / 2].values[i % 2 * 2 + column % 2];
      });
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

  KILN_DEVICE void operator()(Sums &sums, u32 last, TilePlace place, typename Tiled::ThreadPlace at) const {
    waitProducts<0>(sums);
    tiled.release(last);
    receive(sums);
    if (Shape::kColsAreExact || place.n + 1 < Shape::kTilesN)
      writeParts<true>(sums, place.n, at);
    else
      writeParts<false>(sums, place.n, at);
    const int first = at.row - int(laneIndex()) / 4;
    if (arrivesLast(place.m, first % Shape::kM / Shape::kConsumerM))
      parts.template merge<Shape::kRowTiles>(first, 64, epilogue);
  }
};

/// The kernel's body.
template <class Config, class T, class Epilogue>
KILN_DEVICE void wgmmaScore(int rows, const TensorMap &a, const TensorMap &weight, RowScore *parts, u32 *arrivals,
                            const Epilogue &epilogue) {
  const WgmmaTiled<Config, T> thread{dynamicShared<WgmmaTiledStorage<Config, T>>(), a, weight, rows};
  runWgmmaTiled(thread, WgmmaScore<Config, T, Epilogue>{thread, {parts, rows}, arrivals, epilogue});
}

} // namespace kiln
