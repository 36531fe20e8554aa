//===- row_exchange.cuh - the residual stream of a kernel that decodes all layers -----===//
//
// Each cluster holds the whole residual stream in float. The projection of the attention and the MLP's second product
// give sums over the depth that one cluster owns: a cluster posts its sums in memory (device/mailbox.cuh), and every
// cluster adds those of all, in the order of a tree over clusters, so that all of them have the same bits. Of that,
// block r of each cluster does the columns of share r, warp w of it 8 of them, and sends them to all blocks of its
// cluster, with the mean and the sum of the squared deviations of these 8 columns: so the statistics of a row are there
// when the row is (norm/group_statistics.cuh says how they merge).
//
// Two sets of words take turns. A cluster posts into a set again only after it has received from the other one, to
// which every cluster posts after it has read the first.
//
// The words and their stamps outlive the kernel: the first word counts the exchanges so far, and each has a stamp of
// its own.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "decode/shape.cuh"
#include "decode/units.cuh"
#include "device/atomic.cuh"
#include "device/base.cuh"
#include "device/cluster.cuh"
#include "device/index.cuh"
#include "device/mailbox.cuh"
#include "device/math.cuh"
#include "device/vec.cuh"
#include "device/warp.cuh"
#include "norm/group_statistics.cuh"

namespace kiln {

/// The words in memory through which clusters exchange sums. `words` is zero before the first launch.
template <class Config, class T> struct Mailboxes {
  using Shape = DecodeShape<Config, T>;
  static constexpr int kHeader = 2; ///< words

  StampedValue *words;

  /// Exchanges so far.
  KILN_DEVICE u32 *count() const { return reinterpret_cast<u32 *>(words); }
  /// The words of a cluster for a row, in the set of an exchange.
  KILN_DEVICE StampedValue *row(u32 exchange, int cluster, int row) const {
    const u32 place = (exchange % 2 * Shape::kClusters + u32(cluster)) * Shape::kRows + u32(row);
    return words + (kHeader + place * u32(Shape::kDim));
  }
};

/// A warp's part in the exchange: 8 columns of its block's share.
template <class Config, class T> struct RowExchange {
  using Shape = DecodeShape<Config, T>;
  static constexpr int kRows = Shape::kRows;

  DecodeStorage<Config, T> &shared;
  const Mailboxes<Config, T> mail;
  const int rows, cluster, rank = int(clusterRank());
  const ClusterPointer<DecodeStorage<Config, T>> receiver = inBlock(&shared, u32(index())); ///< the lane's, in send()
  u32 next = 0;                  ///< the number of the next exchange, and its stamp less 1
  Vec<float, 2> residual[kRows]; ///< of the lane's columns

  // Lane 4 · i + place has columns 2 place and the next of the warp's 8: of row i of a product, or in the exchange of
  // what cluster i has, and of what goes to block i.
  KILN_DEVICE static int place() { return int(laneIndex()) % 4; }
  KILN_DEVICE static int index() { return int(laneIndex()) / 4; }
  KILN_DEVICE int col() const { return rank * Shape::kOwnCols + int(warpIndex()) * Shape::kUnitCols + 2 * place(); }

  /// Bytes that a block gets of the residual stream.
  KILN_DEVICE u32 bytes() const { return u32(rows) * (Shape::kDim + Shape::kDim / 8 * 2) * u32(sizeof(float)); }

  KILN_DEVICE void begin() { next = loadAcquire(mail.count()); }

  /// Posts the cluster's sums.
  KILN_DEVICE void postSums(const PartSums<T> &sums) const {
    if (index() < rows)
      post(mail.row(next, cluster, index()) + col(), sums.values(), next + 1);
  }

  /// The sum of what the first kSources clusters have posted for the lane's columns, for each row.
  template <int kSources> KILN_DEVICE void receive(Vec<float, 2> (&sums)[kRows]) {
    constexpr int kTurns = ceilDiv(kSources, 8);
    StampedPair pairs[kRows][kTurns];
    for (bool complete = false; !complete;) {
      complete = true;
#pragma unroll
      for (int row = 0; row < kRows; ++row)
#pragma unroll
        for (int turn = 0; turn < kTurns; ++turn) {
          const int source = turn * 8 + index();
          if (row >= rows || source >= kSources)
            continue;
          pairs[row][turn] = peek(mail.row(next, source, row) + col());
          complete &= pairs[row][turn].has(next + 1);
        }
      if (!complete)
        retry();
    }
    syncWarp();
#pragma unroll
    for (int row = 0; row < kRows; ++row) {
      sums[row] = {};
#pragma unroll
      for (int turn = 0; turn < kTurns; ++turn)
        if (row < rows && turn * 8 + index() < kSources)
          sums[row] += pairs[row][turn].values();
#pragma unroll
      for (u32 distance = 4; distance < kWarpSize; distance *= 2)
        sums[row] += {shuffleXor(sums[row][0], distance), shuffleXor(sums[row][1], distance)};
    }
    ++next;
  }

  /// Sends the lane's columns of the residual stream to all blocks of the cluster.
  KILN_DEVICE void send() const {
    const auto barrier = inSameBlock(receiver, shared, &shared.haveX);
#pragma unroll
    for (int row = 0; row < kRows; ++row) {
      if (row >= rows)
        continue;
      const Vec<float, 2> &x = residual[row];
      const float mean = quadSum(x.sum()) / Shape::kUnitCols;
      const Vec<float, 2> deviation = x - mean;
      const float squares = quadSum((deviation * deviation).sum());
      storeAsync(inSameBlock(receiver, shared, &shared.x[row][col()]), x, barrier);
      if (place() == 0)
        storeAsync(inSameBlock(receiver, shared, &shared.groups[row][col() / 8][0]), Vec<float, 2>{mean, squares},
                   barrier);
    }
  }

  /// The warp's 64 of the depth of all rows, normalised, as the left operand of a product.
  template <class Norm, class Operands>
  KILN_DEVICE RowPart normalized(const Norm &norm, const Operands (&with)[4][2]) const {
    const int row = index();
    const Vec<float, 2> statistics = merged(row, Norm::kEps);
    RowPart part{};
#pragma unroll
    for (int step = 0; step < 4; ++step)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        Vec<float, 2> x{};
        if (row < rows)
          x = norm(load<2>(&shared.x[row][depth(step, half)]), statistics[0], statistics[1], with[step][half]);
        part.template set<T>(step, half, x);
      }
    return part;
  }
  /// Where the lane's pairs lie in the depth.
  KILN_DEVICE static int depth(int step, int half) {
    return int(warpIndex()) * Shape::kUnitDepth + 16 * step + 8 * half + 2 * place();
  }
  /// What the normalisation reads from memory for the lane's pairs.
  template <class Norm> KILN_DEVICE static void loadFor(const Norm &norm, typename Norm::Operands (&with)[4][2]) {
#pragma unroll
    for (int step = 0; step < 4; ++step)
#pragma unroll
      for (int half = 0; half < 2; ++half)
        with[step][half] = norm.operands(depth(step, half));
  }

private:
  /// The mean of a row and 1 / √(variance + eps), from those of 8 columns each. The four lanes of the row add in an
  /// order that does not depend on kRows.
  KILN_DEVICE Vec<float, 2> merged(int row, float eps) const {
    constexpr int kGroups = Shape::kDim / 8, kTurns = kGroups / 4;
    static_assert(kGroups % 4 == 0, "whole turns of four lanes");
    // Read twice: kept, they would take most of the registers.
    const Vec<float, 2> *groups = shared.groups[min(row, rows - 1)] + place();
    const float mean = quadSum(sumOver<kTurns>([&](int turn) { return groups[4 * turn][0]; })) / kGroups;
    const float squares = sumOver<kTurns>([&](int turn) {
      const Vec<float, 2> group = load<2>(&groups[4 * turn][0]);
      const float deviation = group[0] - mean;
      return group[1] + 8 * deviation * deviation;
    });
    return {mean, rsqrt(quadSum(squares) / Shape::kDim + eps)};
  }

  /// Σ term(turn), in four sums, so that additions do not wait for each other.
  template <int kTurns, class Term> KILN_DEVICE static float sumOver(Term term) {
    float sums[4] = {};
#pragma unroll 8
    for (int turn = 0; turn < kTurns; ++turn)
      sums[turn % 4] += term(turn);
    return (sums[0] + sums[1]) + (sums[2] + sums[3]);
  }
};

} // namespace kiln
