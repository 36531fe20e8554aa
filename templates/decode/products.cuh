//===- products.cuh - the products of a kernel that decodes all layers ----------------===//
//
// The two kinds of products of decode/shape.cuh, in tensor cores, and what comes before and behind them: rows that are
// waited for and their statistics, sums of warps, results for all blocks of the cluster, sums for all clusters.
//
// All warps of a block wait for each other by meet(), and for bytes of other blocks by await().
//
//===----------------------------------------------------------------------===//
#pragma once

#include "decode/quad.cuh"
#include "decode/row_exchange.cuh"
#include "decode/shape.cuh"
#include "decode/units.cuh"
#include "device/barrier.cuh"
#include "device/base.cuh"
#include "device/cluster.cuh"
#include "device/index.cuh"
#include "device/vec.cuh"
#include "device/warp.cuh"

namespace kiln {

/// A warp's part in the products. Functors are those of decode/layers.cuh.
template <class Config, class T> struct DecodeProducts : RowExchange<Config, T> {
  using Shape = DecodeShape<Config, T>;
  using Exchange = RowExchange<Config, T>;
  using RowParts = RowProducts<T, Shape::kRows>;
  using Exchange::col, Exchange::hasGroup, Exchange::index, Exchange::kAll, Exchange::lane, Exchange::place,
      Exchange::postSums, Exchange::putMoments, Exchange::quad, Exchange::residual, Exchange::residualBytes,
      Exchange::residualPart, Exchange::rows, Exchange::shared, Exchange::statistics, Exchange::warp;
  static constexpr int kRows = Shape::kRows;
  static constexpr int kWideParts = Shape::template kWarpParts<UnitKind::Wide>, // of a warp
      kNarrowParts = Shape::template kWarpParts<UnitKind::Narrow>;

  UnitsAhead<Config, T> ahead;
  u32 metParity = 0;
  // The parities of the barrier for rows, and of those that are used once a layer, share a register.
  static constexpr u32 kOfX = 1, kOfLayer = 2;
  u32 parities = 0;

  using Exchange::Exchange;

  /// All multiplying warps of the block wait for each other.
  KILN_DEVICE void meet() {
    syncWarp();
    syncWarps<1, Shape::kConsumers>(shared.met, metParity);
  }

  KILN_DEVICE u32 parityOf(u32 which) const { return parities / which % 2; }

  /// Waits for bytes that blocks of the cluster send.
  KILN_DEVICE void await(SharedBarrier &barrier, u32 parity, u32 bytes) {
    if (index() == 0)
      arriveExpecting(barrier, bytes);
    waitClusterBarrier(barrier, parity);
  }

  /// The warp's parts of all rows.
  struct Rows {
    typename RowParts::Part of[kWideParts];
  };
  /// Waits for the residual stream, and takes the warp's parts of it.
  KILN_DEVICE Rows awaitRows() {
    await(shared.haveX, parityOf(kOfX), residualBytes());
    parities ^= kOfX;
    Rows x;
#pragma unroll
    for (int i = 0; i < kWideParts; ++i) {
      x.of[i] = residualPart(i);
      if constexpr (kRows == 1)
        if (quad() == 2) // the column of ones
          for (u32 &word : x.of[i].words)
            word = hasPart(i) ? pairFromFloat<T>(1.0f, 1.0f) : 0;
    }
    return x;
  }
  /// Leaves the moments of the warp's parts of the rows for the other warps.
  KILN_DEVICE void putMomentsOf(int which, const Rows &x) const {
    typename RowParts::Sums moments;
#pragma unroll
    for (int i = 0; i < kWideParts; ++i)
      moments.addMoments(x.of[i], oneOfNinth(i));
    putMoments(which, moments);
  }
  /// Whether a part of the warp is one of the wide units' and the rows' depth.
  KILN_DEVICE bool hasPart(int i) const { return this->template has<UnitKind::Wide>(i); }
  /// The lane's word of a ninth row of ones, along a part of the warp.
  KILN_DEVICE u32 oneOfNinth(int i) const { return quad() == 0 && hasPart(i) ? pairFromFloat<T>(1.0f, 1.0f) : 0; }

  /// Where the two elements of a word of a part lie in the depth.
  KILN_DEVICE int depthOf(int i, int word) const {
    const int part = min(this->template indexOf<UnitKind::Wide>(i), Shape::template kParts<UnitKind::Wide> - 1);
    return part * Shape::kUnitDepth +
           (kRows == 1 ? OneRowPart::elementOf(word, quad(), place()) : 8 * word + 2 * place());
  }
  /// Normalises rows by the statistics that all warps have left.
  template <class Norm>
  KILN_DEVICE void normalize(Rows &x, const Norm &norm,
                             const typename Norm::Operands (&with)[kWideParts][RowParts::kWords]) const {
    const Vec<float, 2> ofRow = this->template statistics<1>(0, min(quad(), rows - 1), Norm::kEps);
#pragma unroll
    for (int i = 0; i < kWideParts; ++i)
#pragma unroll
      for (int word = 0; word < RowParts::kWords; ++word) {
        const Vec<float, 2> y = norm(x.of[i].template values<T>(word), ofRow[0], ofRow[1], with[i][word]);
        x.of[i].words[word] = hasPart(i) ? pairFromFloat<T>(y[0], y[1]) : 0;
      }
  }

  /// The warp's sums for a wide unit, and those of the weights.
  KILN_DEVICE typename RowParts::Sums product(const Rows &x, const UnitParts<Config, T> &parts) const {
    typename RowParts::Sums sums;
#pragma unroll
    for (int i = 0; i < kWideParts; ++i)
      sums.add(x.of[i], parts.of[i], oneOfNinth(i));
    return sums;
  }
  /// Leaves them in the panel.
  KILN_DEVICE void putSums(int panelUnit, const OneRowSums<T> &sums) {
    if (place() < 2)
      storeShared(&shared.panel[warp()][panelUnit][place()][quad()], Vec<float, 1>{sums.value(place())});
  }
  KILN_DEVICE void putSums(int panelUnit, const PartSums<T> &sums) {
    auto &panel = shared.panel[warp()][panelUnit];
    if (quad() < rows)
      storeShared(&panel[quad()][2 * place()], sums.values());
    if (quad() == 0)
      storeShared(&panel[kRows][2 * place()], sums.ninth());
  }
  /// The sum of a row for two columns of a unit; row kRows: of the weights. By kQuads quads, as sumOfWarps.
  template <int kQuads> KILN_DEVICE Vec<float, 2> sumOfPanel(int panelUnit, int row) const {
    return this->template sumOfWarps<kQuads>(
        [&](int warp) { return load<2>(&shared.panel[warp][panelUnit][row][2 * place()]); });
  }

  /// Wide product kWhich of a layer, 0 or 1, of `units` units, kFewest to kMost, the first of which have been taken,
  /// and whose first columns are column(unit). The 8 results of a unit and a row go to their place in all blocks of the
  /// cluster, where `barrier` counts the bytes: kShare quads add them up and give them to some blocks each.
  template <int kWhich, int kFewest, int kMost, class Norm, class Wide, class Column, class Target>
  KILN_DEVICE void wide(int units, const Norm &norm, const Wide &epilogue, const Column &column, const Target &target,
                        SharedBarrier &barrier) {
    constexpr int kItems = kMost * kRows, kQuads = Shape::kConsumers / 4, kShare = quadsFor(kItems);
    constexpr int kOfWarp = 8 / kShare, kTurnItems = kQuads / kShare, kTurns = ceilDiv(kItems, kTurnItems);
    const auto firstItem = [&](int turn) { return turn * kTurnItems + warp() * kOfWarp; };
    typename Wide::Operands with[kTurns];
#pragma unroll
    for (int turn = 0; turn < kTurns; ++turn)
      with[turn] = epilogue.operands(column(min((firstItem(turn) + quad() / kShare) / kRows, units - 1)) + 2 * place());
    multiplyWide<kWhich, kFewest>(units);
#pragma unroll
    for (int turn = 0; turn < kTurns; ++turn) {
      if (firstItem(turn) / kRows >= units)
        continue;
      const int item = firstItem(turn) + quad() / kShare, row = item % kRows, unit = item / kRows;
      const bool isResult = row < rows && unit < units;
      const int someRow = isResult ? row : 0, someUnit = isResult ? unit : 0;
      const Vec<float, 2> ofRow = this->template statistics<kShare>(kWhich, someRow, Norm::kEps);
      const int at = kPanelOf<kWhich> + someUnit;
      const Vec<float, 2> sums = sumOfPanel<kShare>(at, someRow), weights = sumOfPanel<kShare>(at, kRows);
      const Vec<float, 2> y = epilogue(norm(sums, weights, ofRow[0], ofRow[1]), with[turn]);
      Packet<16> chunk;
      gatherQuad(chunk.words, pairFromFloat<T>(y[0], y[1]), lane());
      auto *chunkAt = reinterpret_cast<Packet<16> *>(target(someUnit, someRow));
#pragma unroll
      for (int first = 0; first < kOfWarp; first += 4)
        if (const int to = (first + place()) * kShare + quad() % kShare;
            isResult && first + place() < kOfWarp && (Shape::kBlocks == 8 || to < Shape::kBlocks))
          storeAsync(inBlock(chunkAt, u32(to)), chunk, inBlock(&barrier, u32(to)));
    }
  }

  /// A narrow product of rows in shared memory, of kFewest units at least; the first units have been taken. Its sums
  /// are posted.
  template <int kFewest> KILN_DEVICE void narrow(int units, const T *from, int stride) {
    using Part = typename RowParts::Part;
    const auto rowsOf = [&](int unit) { return Part::read(from + unit * 64, stride, rows, lane()); };
    Vec<float, 2> sums[kNarrowParts] = {};
    const auto add = [&](const Part &rowPart, const UnitParts<Config, T> &parts) {
#pragma unroll
      for (int i = 0; i < kNarrowParts; ++i) {
        typename RowParts::Sums product;
        product.add(rowPart, parts.of[i]);
        if constexpr (kRows == 1)
          sums[i][0] += product.value(0);
        else
          sums[i] += product.values();
      }
    };
    constexpr int kAhead = Config::kAhead;
    Part rowParts[kAhead] = {};
#pragma unroll
    for (int i = 0; i < kAhead; ++i)
      if (i < kFewest || i < units)
        rowParts[i] = rowsOf(i);
#pragma unroll
    for (int i = 0; i < kAhead; ++i)
      if (i < kFewest || i < units)
        add(rowParts[i], ahead.parts[i]);
#pragma unroll 1
    for (int i = kAhead; i < units; ++i)
      add(rowsOf(i), this->template takeUnit<UnitKind::Narrow>());
    if constexpr (kRows == 1)
#pragma unroll
      for (Vec<float, 2> &sum : sums) // of column quad(), in lanes with place 0
        sum = {shuffle(sum[0], u32(8 * place())), shuffle(sum[0], u32(8 * place() + 4))};
    postSums(sums);
  }

  template <int kSources, class Narrow> KILN_DEVICE void add(const Narrow &epilogue) {
    typename Narrow::Operands with[kNarrowParts];
#pragma unroll
    for (int i = 0; i < kNarrowParts; ++i)
      with[i] = epilogue.operands(min(col(i), Shape::kDim - 2));
    Vec<float, 2> sums[kAll];
    this->template receive<kSources>(sums);
#pragma unroll
    for (int n = 0; n < kAll; ++n)
      if (hasGroup(n))
        residual[n] = epilogue(sums[n], residual[n], with[n % kNarrowParts]);
  }

private:
  /// The first unit of a wide product in the panel.
  template <int kWhich> static constexpr int kPanelOf = kWhich * Shape::kMostQkv;
  /// How many quads, at most a warp's 8, can share each of so many items of a block.
  KILN_DEVICE static constexpr int quadsFor(int items) {
    int quads = 8;
    while (quads > 1 && items * quads > Shape::kConsumers / 4)
      quads /= 2;
    return quads;
  }
  /// Waits for the rows, and leaves the sums of all units and the rows' moments for the other warps.
  template <int kWhich, int kFewest> KILN_DEVICE void multiplyWide(int units) {
    constexpr int kAhead = Config::kAhead;
    const Rows x = awaitRows();
    typename RowParts::Sums sums[kAhead];
#pragma unroll
    for (int i = 0; i < kAhead; ++i)
      if (i < kFewest || i < units)
        sums[i] = product(x, ahead.parts[i]);
    putMomentsOf(kWhich, x);
#pragma unroll
    for (int i = 0; i < kAhead; ++i)
      if (i < kFewest || i < units)
        putSums(kPanelOf<kWhich> + i, sums[i]);
#pragma unroll 1
    for (int i = kAhead; i < units; ++i)
      putSums(kPanelOf<kWhich> + i, product(x, this->template takeUnit<UnitKind::Wide>()));
    meet();
  }
};

} // namespace kiln
