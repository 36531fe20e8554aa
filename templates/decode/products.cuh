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
  using Exchange::col, Exchange::has, Exchange::hasGroup, Exchange::index, Exchange::indexOf, Exchange::kAll,
      Exchange::lane, Exchange::place, Exchange::postSums, Exchange::putMoments, Exchange::quad, Exchange::residual,
      Exchange::residualBytes, Exchange::residualPart, Exchange::rows, Exchange::shared, Exchange::statistics,
      Exchange::warp;
  static constexpr int kRows = Shape::kRows, kWarpParts = Shape::kWarpParts;

  UnitsAhead<Config, T> ahead;
  u32 metParity = 0, xParity = 0;

  using Exchange::Exchange;

  /// All multiplying warps of the block wait for each other.
  KILN_DEVICE void meet() {
    syncWarp();
    if (lane() == 0)
      arrive(shared.met);
    waitBarrier(shared.met, metParity);
    metParity ^= 1;
  }

  /// Waits for bytes that blocks of the cluster send.
  KILN_DEVICE void await(SharedBarrier &barrier, u32 &parity, u32 bytes) {
    if (index() == 0)
      arriveExpecting(barrier, bytes);
    waitClusterBarrier(barrier, parity);
    parity ^= 1;
  }

  /// The warp's parts of all rows.
  struct Rows {
    RowPart of[kWarpParts];
  };
  /// Waits for the residual stream, and takes the warp's parts of it.
  KILN_DEVICE Rows awaitRows() {
    await(shared.haveX, xParity, residualBytes());
    Rows x;
#pragma unroll
    for (int i = 0; i < kWarpParts; ++i)
      x.of[i] = residualPart(i);
    PartSums<T> moments;
#pragma unroll
    for (int i = 0; i < kWarpParts; ++i)
      moments.add(x.of[i], transposed(x.of[i]), oneOfNinth(i));
    putMoments(moments);
    return x;
  }
  /// The lane's word of a ninth row of ones, along a part of the warp.
  KILN_DEVICE u32 oneOfNinth(int i) const { return quad() == 0 && has(i) ? pairFromFloat<T>(1.0f, 1.0f) : 0; }

  /// Where the two elements of a word of a part lie in the depth.
  KILN_DEVICE int depthOf(int i, int word) const {
    return min(indexOf(i), Shape::kParts - 1) * Shape::kUnitDepth + 8 * word + 2 * place();
  }
  /// Normalises rows by the statistics that all warps have left.
  template <class Norm>
  KILN_DEVICE void normalize(Rows &x, const Norm &norm, const typename Norm::Operands (&with)[kWarpParts][8]) const {
    const Vec<float, 2> ofRow = statistics(min(quad(), rows - 1), Norm::kEps);
#pragma unroll
    for (int i = 0; i < kWarpParts; ++i)
#pragma unroll
      for (int word = 0; word < 8; ++word) {
        const Vec<float, 2> y = norm(x.of[i].template values<T>(word), ofRow[0], ofRow[1], with[i][word]);
        x.of[i].words[word] = has(i) ? pairFromFloat<T>(y[0], y[1]) : 0;
      }
  }

  /// Leaves the warp's sums for a unit in the panel, and those of the weights.
  KILN_DEVICE void putSums(int panelUnit, const Rows &x, const UnitParts<Config, T> &parts) {
    PartSums<T> sums;
#pragma unroll
    for (int i = 0; i < kWarpParts; ++i)
      sums.add(x.of[i], parts.of[i], oneOfNinth(i));
    auto &panel = shared.panel[warp()][panelUnit];
    if (quad() < rows)
      storeShared(&panel[quad()][2 * place()], sums.values());
    if (quad() == 0)
      storeShared(&panel[kRows][2 * place()], sums.ninth());
  }
  /// The sum of a row for two columns of a unit; row kRows: of the weights.
  KILN_DEVICE Vec<float, 2> sumOfWarps(int panelUnit, int row, int pair) const {
    Vec<float, 2> sum{};
#pragma unroll
    for (int warp = 0; warp < Shape::kWarps; ++warp)
      sum += load<2>(&shared.panel[warp][panelUnit][row][2 * pair]);
    return sum;
  }

  /// A wide product of `units` units, whose first columns are column(unit). The 8 results of a unit and a row go to
  /// their place in all blocks of the cluster, where `barrier` counts the bytes: a quad computes them, and each of its
  /// lanes gives them to two blocks.
  template <int kMost, class Norm, class Wide, class Column, class Target>
  KILN_DEVICE void wide(int units, const Norm &norm, const Wide &epilogue, const Column &column, const Target &target,
                        SharedBarrier &barrier) {
    constexpr int kQuads = Shape::kConsumers / 4, kTurns = ceilDiv(kMost * kRows, kQuads);
    const int pair = place(), ownQuad = index() / 4;
    ahead.take(*this, units);
    typename Wide::Operands with[kTurns];
#pragma unroll
    for (int turn = 0; turn < kTurns; ++turn)
      with[turn] = epilogue.operands(column(min((turn * kQuads + ownQuad) / kRows, units - 1)) + 2 * pair);
    const Rows x = awaitRows();
    ahead.forEach(*this, units, [&](int unit, const UnitParts<Config, T> &parts) { putSums(unit, x, parts); });
    meet();
#pragma unroll
    for (int turn = 0; turn < kTurns; ++turn) {
      const int item = turn * kQuads + ownQuad, row = item % kRows, unit = item / kRows;
      if ((item - ownQuad % 8) / kRows >= units) // of the warp's first quad
        continue;
      const bool isResult = row < rows && unit < units;
      const int someRow = isResult ? row : 0, someUnit = isResult ? unit : 0;
      const Vec<float, 2> ofRow = statistics(someRow, Norm::kEps);
      const Vec<float, 2> y = epilogue(
          norm(sumOfWarps(someUnit, someRow, pair), sumOfWarps(someUnit, kRows, pair), ofRow[0], ofRow[1]), with[turn]);
      Packet<16> chunk;
      gatherQuad(chunk.words, pairFromFloat<T>(y[0], y[1]), lane());
      auto *chunkAt = reinterpret_cast<Packet<16> *>(target(someUnit, someRow));
      if (isResult)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const auto to = u32(pair + 4 * half);
          storeAsync(inBlock(chunkAt, to), chunk, inBlock(&barrier, to));
        }
    }
  }

  /// A narrow product of rows in shared memory; the first units have been taken. Its sums are posted.
  KILN_DEVICE void narrow(int units, const T *from, int stride) {
    PartSums<T> sums[kWarpParts];
    ahead.forEach(*this, units, [&](int unit, const UnitParts<Config, T> &parts) {
      const RowPart rowPart = RowPart::read(from + unit * 64, stride, rows, lane());
#pragma unroll
      for (int i = 0; i < kWarpParts; ++i)
        sums[i].add(rowPart, parts.of[i]);
    });
    postSums(sums);
  }

  template <int kSources, class Narrow> KILN_DEVICE void add(const Narrow &epilogue) {
    typename Narrow::Operands with[kWarpParts];
#pragma unroll
    for (int i = 0; i < kWarpParts; ++i)
      with[i] = epilogue.operands(min(col(i), Shape::kDim - 2));
    Vec<float, 2> sums[kAll];
    this->template receive<kSources>(sums);
#pragma unroll
    for (int n = 0; n < kAll; ++n)
      if (hasGroup(n))
        residual[n] = epilogue(sums[n], residual[n], with[n % kWarpParts]);
  }
};

} // namespace kiln
