//===- wgmma_score.cuh - log-probabilities of tokens, logits in registers only -------------===//
//
// The product of wgmma_tiled.cuh, whose columns are the vocabulary. Its sums, the logits, are not stored: for each row
// the kernel finds the log-probability of the row's target, the best token and that one's log-probability
// (norm/row_score.cuh).
//
// Method: a block keeps its rows and walks along the columns (StripeTiles of tile_order.cuh), so that a thread has the
// scores of its rows so far in registers. With two teams or more, one updates them while the tensor cores multiply
// another's tile. At the end of each of the kStretches stretches of a stripe, each team writes the scores of its rows
// to memory (gemm/score_parts.cuh); the last warp to arrive of those that have the same rows merges them. So the order
// of a row's sums depends on kTileN, kTeams and kStretches, and not on the number of rows.
//
// Launch, maps, shared memory and Config: as in wgmma_tiled.cuh, without clusters, and
//   kStretches  so many stretches have at least kTeams tiles each, or there is one
// Columns of the weight from kCols on are no tokens.
//
// Memory: parts, of kStretches · min(kTeams, ceildiv(kCols, kTileN)) scores a row. arrivals: 4 · kConsumers counters
// for each kTileM rows, zero before and after.
//
// Epilogue: as in norm/score_rows.cuh.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "arrivals.cuh"
#include "gemm/score_parts.cuh"
#include "gemm/wgmma_tiled.cuh"

namespace kiln {

template <class Config, class T> constexpr SharedBytes kWgmmaScoreShared = kWgmmaTiledShared<Config, T>;

/// What a consumer does with the sums of its tiles.
template <class Config, class T, class Epilogue> struct WgmmaScore {
  using Shape = WgmmaTiledShape<Config, T>;
  using Tiled = WgmmaTiled<Config, T, StripeTiles<Config::kStretches>>;
  using Sums = typename Tiled::Sums;
  using ThreadPlace = typename Tiled::ThreadPlace;

  static_assert(Shape::Cluster::kBlocks == 1, "a block keeps its rows");
  static_assert(Shape::kThreadCols == 8, "columns of a thread as gemm/score_parts.cuh has them");
  static_assert(Config::kStretches == 1 || Config::kStretches * Shape::kTeams <= Shape::kTilesN,
                "every team has a tile of a stretch");

  const Tiled &tiled;
  const ScoreParts<Config::kCols> parts;
  u32 *arrivals;
  const Epilogue &epilogue;
  int targets[Tiled::kThreadRows];
  RowScore scores[Tiled::kThreadRows]; // so far

  /// Parts of a stretch: fewer teams than there are may have tiles if there are few columns.
  static constexpr int kTeams = min(Shape::kTeams, Shape::kTilesN);

  KILN_DEVICE WgmmaScore(const Tiled &tiled, RowScore *parts, u32 *arrivals, const Epilogue &epilogue)
      : tiled(tiled), parts{parts, tiled.rows, Config::kStretches * kTeams}, arrivals(arrivals), epilogue(epilogue) {}

  KILN_DEVICE void begin(ThreadPlace at) {
#pragma unroll
    for (int i = 0; i < Tiled::kThreadRows; ++i) {
      targets[i] = epilogue.target(min(at.rowOf(i), tiled.rows - 1));
      scores[i] = RowScore::none();
    }
  }

  template <bool kWhole> KILN_DEVICE void add(const Sums &sums, ThreadPlace at) {
#pragma unroll
    for (int i = 0; i < Tiled::kThreadRows; ++i)
      parts.template add<kWhole, Tiled::kGroups * 8>(scores[i], at.col, targets[i], [&](int column) {
        return sums.total()[i / 2].tiles[column / 2].values[i % 2 * 2 + column % 2];
      });
  }

  /// Whether this warp is the last to write parts of its rows.
  KILN_DEVICE bool arrivesLast(int m, int consumer) const {
    return warpArrivesLast(arrivals + (m * Shape::kConsumers + consumer) * 4 + int(warpIndex()) % 4, parts.count);
  }

  /// Writes part number `part` of the rows, and merges all parts if it is the last one.
  KILN_DEVICE void end(int part, TilePlace place, ThreadPlace at) const {
#pragma unroll
    for (int i = 0; i < Tiled::kThreadRows; ++i)
      parts.write(part, at.rowOf(i), scores[i]);
    const int first = at.row - int(laneIndex()) / 4;
    if (arrivesLast(place.m, first % Shape::kM / Shape::kConsumerM))
      parts.template merge<Shape::kRowTiles>(first, 64, epilogue);
  }

  struct Nothing {};
  KILN_DEVICE void beforeFirstTurn() const {}
  KILN_DEVICE Nothing prepare(ThreadPlace) const { return {}; }
  KILN_DEVICE void finish(Sums &sums, u32 last, Nothing, int, TilePlace place, ThreadPlace at) {
    const auto &order = tiled.block.order;
    const int stretch = order.stretchOf(place.n), tile = place.n - order.startOf(stretch);
    if (tile < Shape::kTeams)
      begin(at);
    tiled.finishRange(sums, last);
    if (Shape::kColsAreExact || place.n + 1 < Shape::kTilesN)
      add<true>(sums, at);
    else
      add<false>(sums, at);
    // Which team has which tiles of a stretch differs between blocks.
    if (place.n + Shape::kTeams >= order.startOf(stretch + 1))
      end(stretch * kTeams + tile % Shape::kTeams, place, at);
  }
};

/// The kernel's body.
template <class Config, class T, class Epilogue>
KILN_DEVICE void wgmmaScore(int rows, const TensorMap &a, const TensorMap &weight, RowScore *parts, u32 *arrivals,
                            const Epilogue &epilogue) {
  using Score = WgmmaScore<Config, T, Epilogue>;
  const typename Score::Tiled thread{dynamicShared<WgmmaTiledStorage<Config, T>>(), a, weight, {rows}};
  runWgmmaTiled(thread, Score(thread, parts, arrivals, epilogue));
}

} // namespace kiln
