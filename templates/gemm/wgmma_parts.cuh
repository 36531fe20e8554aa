//===- wgmma_parts.cuh - the sums of a tile whose depth several blocks share ----------===//
//
// Each block of a cluster has sums over its part of the depth for the whole tile. Of the vectors of neighbouring
// columns that a thread has, rows first, block i of the parts finishes the i-th share: it gets this share from the
// other blocks, thread by thread, through distributed shared memory (st.async; a barrier counts the bytes), adds all in
// the order of the parts and passes the result to the epilogue.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "device/base.cuh"
#include "device/block.cuh"
#include "device/cluster.cuh"
#include "device/index.cuh"
#include "device/vec.cuh"
#include "device/warpgroup.cuh"
#include "epilogue.cuh"
#include "gemm/tile_order.cuh"
#include "gemm/wgmma_shape.cuh"

namespace kiln {

/// What a consumer does with the sums of its part, in place of WgmmaTiledEnd.
template <class Tiled, class Epilogue> struct WgmmaPartsEnd {
  using Shape = typename Tiled::Shape;
  using Place = typename Tiled::ThreadPlace;
  using Sums = typename Tiled::Sums;
  static constexpr int kParts = Shape::kParts, kOwn = Shape::kOwn, kGroups = Shape::kGroups;
  static constexpr int V = Tiled::V, kVectors = Tiled::kVectors, kPiece = WgmmaPartSums<Shape>::kPiece,
                       kPieces = Shape::kThreadCols / kPiece;
  using ThreadVec = Vec<float, Shape::kThreadCols>;

  const Tiled &tiled;
  const Epilogue &epilogue;

  KILN_DEVICE int part() const { return tiled.block.at.part; }
  KILN_DEVICE int thread() const { return int(threadIndex()) - int(kWarpgroupSize); }

  /// The row and the first column of the thread's own vector i: it has whole rows, or a share of one.
  KILN_DEVICE int rowOf(Place at, int i) const { return at.rowOf(part() * kOwn / kGroups + i / kGroups); }
  KILN_DEVICE int colOf(Place at, int i, int vector) const {
    return at.colOf(part() * kOwn % kGroups + i % kGroups, vector);
  }

  /// What the epilogue reads of the rows of own vectors.
  struct OfRows {
    typename RowOperandsOf<Epilogue>::Type rows[ceilDiv(kOwn, kGroups)];
  };
  KILN_DEVICE OfRows prepare(Place at) const {
    OfRows ofRows{};
    if constexpr (!Shape::kMails)
#pragma unroll
      for (int row = 0; row < ceilDiv(kOwn, kGroups); ++row)
        ofRows.rows[row] = RowOperandsOf<Epilogue>::load(epilogue, min(rowOf(at, row * kGroups), tiled.rows - 1));
    return ofRows;
  }
  KILN_DEVICE OfRows mailed(TilePlace place, Place at) const {
    OfRows ofRows;
    tiled.waitForMail(0);
#pragma unroll
    for (int row = 0; row < ceilDiv(kOwn, kGroups); ++row) {
      const Vec<float, 2> &operands =
          tiled.shared.mail.ofRows[0][rowOf(at, row * kGroups) - tiled.block.firstRow(place.m)];
      ofRows.rows[row] = {operands[0], operands[1]};
    }
    return ofRows;
  }

  /// Gives the other blocks their share of the sums, and returns the own one.
  struct Own {
    ThreadVec vectors[kOwn];
  };
  KILN_DEVICE Own give(const Sums &sums) const {
    Own own;
#pragma unroll
    for (int i = 0; i < kParts * kOwn; ++i) {
      const int owner = i / kOwn;
      const ThreadVec vector = Tiled::template product<Shape::kThreadCols>(sums.total(), i % kGroups, i / kGroups);
      if (owner == part())
        own.vectors[i % kOwn] = vector;
      else
        send(vector, owner, i % kOwn);
    }
    return own;
  }
  KILN_DEVICE void send(const ThreadVec &vector, int owner, int i) const {
    auto &ofParts = tiled.shared.ofParts;
    auto &to = ofParts.sums[part() - (part() > owner)][i];
    const u32 rank = tiled.block.at.rankOfPart(owner);
    const auto complete = inBlock(&ofParts.complete, rank);
#pragma unroll
    for (int piece = 0; piece < kPieces; ++piece) {
      Vec<float, kPiece> values;
#pragma unroll
      for (int v = 0; v < kPiece; ++v)
        values[v] = vector[kPiece * piece + v];
      storeAsync(inBlock(to[piece][thread()].data, rank), values, complete);
    }
  }

  /// The sum of all parts.
  KILN_DEVICE ThreadVec sumOf(const Own &own, int i) const {
    ThreadVec sum{};
#pragma unroll
    for (int from = 0; from < kParts; ++from) {
      ThreadVec vector = own.vectors[i];
      if (from != part())
        vector = received(from - (from > part()), i);
      sum = from == 0 ? vector : sum + vector;
    }
    return sum;
  }
  KILN_DEVICE ThreadVec received(int from, int i) const {
    ThreadVec vector;
#pragma unroll
    for (int piece = 0; piece < kPieces; ++piece) {
      const auto values = load<kPiece>(tiled.shared.ofParts.sums[from][i][piece][thread()].data);
#pragma unroll
      for (int v = 0; v < kPiece; ++v)
        vector[kPiece * piece + v] = values[v];
    }
    return vector;
  }

  using Operands = typename Epilogue::template Operands<V>;

  KILN_DEVICE void finish(Sums &sums, u32 last, const OfRows &loaded, int, TilePlace place, Place at) const {
    OfRows ofRows = loaded;
    if constexpr (Shape::kMails)
      ofRows = mailed(place, at);
    Operands operands[kOwn][kVectors];
#pragma unroll
    for (int i = 0; i < kOwn; ++i)
#pragma unroll
      for (int vector = 0; vector < kVectors; ++vector)
        operands[i][vector] = tiled.template operandsAt<false>(epilogue, at, rowOf(at, i), colOf(at, i, vector));
    tiled.finishRange(sums, last);
    const Own own = give(sums);
    waitClusterBarrier(tiled.shared.ofParts.complete, 0);
    if (tiled.isWhole(place))
      passAll<true>(own, operands, ofRows, at);
    else
      passAll<false>(own, operands, ofRows, at);
  }

  /// Passes the sums of the own vectors to the epilogue.
  template <bool kWhole>
  KILN_DEVICE void passAll(const Own &own, const Operands (&operands)[kOwn][kVectors], const OfRows &ofRows,
                           Place at) const {
#pragma unroll
    for (int i = 0; i < kOwn; ++i) {
      const ThreadVec sum = sumOf(own, i);
#pragma unroll
      for (int vector = 0; vector < kVectors; ++vector)
        pass<kWhole>(sum, vector, operands[i][vector], ofRows.rows[i / kGroups], at, i);
    }
  }

  /// Passes a vector of a sum.
  template <bool kWhole, class OfRow>
  KILN_DEVICE void pass(const ThreadVec &sum, int vector, const Operands &with, const OfRow &of, Place at,
                        int i) const {
    const int row = rowOf(at, i), col = colOf(at, i, vector);
    Vec<float, V> values;
#pragma unroll
    for (int v = 0; v < V; ++v)
      values[v] = sum[vector * V + v];
    passProduct(epilogue, values, with, of, row, col, tiled.template exists<kWhole>(at, row, col));
  }
};

} // namespace kiln
