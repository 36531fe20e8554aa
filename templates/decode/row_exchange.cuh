//===- row_exchange.cuh - the residual stream of a kernel that decodes all layers -----===//
//
// Each cluster keeps the whole residual stream in float, each of its blocks some columns. The projection of the
// attention and the MLP's second product give sums over the depth that one cluster owns: a cluster posts its sums in
// memory (device/mailbox.cuh), that of all ranks if several share the model (decode/ranks.cuh), and every cluster adds
// those of all clusters of all ranks, in the order of a tree over them, so that all have the same bits. Of that, block
// r of each cluster does the columns of share r, each warp some groups of 8, and sends them to all blocks of its
// cluster, rounded to the type of the products: the block that adds a column up is the one that keeps it in float.
//
// A layernorm before a wide product is done on the product's sums: Σ w (x − mean) rstd = (Σ w x − mean Σ w) rstd. So
// warps multiply rows as they come, and with themselves: that gives the sum of a warp's columns and that of their
// squares. Neither subtraction, nor that of the mean's square from the mean of squares, loses as much as the rounding
// of the rows has lost before.
//
// Four sets of words take turns. When a cluster posts into a set again, it has received from the three exchanges in
// between. At least every second exchange has posts of all clusters, also of those without heads, and a cluster posts
// after it has read all exchanges before: so all of them have read what is overwritten.
//
// The words and their stamps outlive the kernel. Behind the times of phases, the first word counts the exchanges so
// far. Then come a count of blocks, which decode/generate.cuh uses, one of blocks of all ranks, and two words for each
// row and for each block of all ranks, each with a stamp of its own, which only decode/generate.cuh uses. Behind them
// are the sets, in which each group of 8 columns has a line of the cache, half of it empty: lines that several warps
// write are slower.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "decode/phase_times.cuh"
#include "decode/quad.cuh"
#include "decode/ranks.cuh"
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

namespace kiln {

/// The words in the memory of a rank through which clusters exchange sums. `words` is zero before the first launch.
template <class Config, class T> struct Mailboxes {
  using Shape = DecodeShape<Config, T>;
  static constexpr int kMostRows = 8, kSets = 4, kGroup = 8, kLineWords = 16;
  // What is in front of the words of clusters begins with the sums of decode/phase_times.cuh, two in a word.
  static constexpr int kAllBlocks = Shape::kAllBlocks;
  static constexpr int kTimes = 2 * ceilDiv(kAllBlocks, 4) * int(kDecodePhases),
                       kHeader =
                           ceilDiv(kTimes + 4 + 2 * (kMostRows + Config::kRanks * kAllBlocks), kLineWords) * kLineWords;

  StampedValue *words;

  KILN_DEVICE u32 *phaseTimes() const { return reinterpret_cast<u32 *>(words); }
  /// Exchanges so far.
  KILN_DEVICE u32 *count() const { return reinterpret_cast<u32 *>(words + kTimes); }
  /// How often a block has arrived at a barrier of all blocks.
  KILN_DEVICE u32 *arrivals() const { return reinterpret_cast<u32 *>(words + (kTimes + 1)); }
  /// The same of the blocks of all ranks.
  KILN_DEVICE u32 *arrivalsOfRanks() const { return reinterpret_cast<u32 *>(words + (kTimes + 2)); }
  /// The two words with a row's next token.
  KILN_DEVICE StampedValue *next(int row) const { return words + (kTimes + 4 + 2 * row); }
  /// The two words with the best of a block's logits. Blocks count through all ranks.
  KILN_DEVICE StampedValue *best(int block) const { return words + (kTimes + 4 + 2 * (kMostRows + block)); }
  /// The words of a cluster for a row and a column, in the set of an exchange. Clusters count through all ranks.
  KILN_DEVICE StampedValue *column(u32 exchange, int cluster, int row, int col) const {
    const u32 place = (exchange % kSets * (Config::kRanks * Shape::kClusters) + u32(cluster)) * Shape::kRows + u32(row);
    return words + kHeader + (place * u32(Shape::kDim / kGroup) + u32(col) / kGroup) * kLineWords + u32(col) % kGroup;
  }
};

/// A warp's part in the exchange: groups of 8 columns of its block's share, parts of a narrow unit.
template <class Config, class T> struct RowExchange : UnitReads<Config, T> {
  using Shape = DecodeShape<Config, T>;
  using Reads = UnitReads<Config, T>;
  using Products = RowProducts<T, Shape::kRows>;
  using Reads::cluster, Reads::lane, Reads::place, Reads::quad, Reads::rank, Reads::rows, Reads::shared, Reads::warp;
  static constexpr int kRows = Shape::kRows, kGroups = Shape::template kWarpParts<UnitKind::Narrow>,
                       kAll = kRows * kGroups;
  static constexpr int kRanks = Config::kRanks;

  const DecodeRanks<kRanks> ranks;
  const Mailboxes<Config, T> mail;   ///< this rank's
  u32 next = 0;                      ///< the number of the next exchange, and its stamp less 1
  Vec<float, 2> residual[kAll] = {}; ///< of the lane's columns of group i of each row, at row · kGroups + i

  // A lane has columns 2 place() and the next of each group: of row quad() of a product, or in the exchange of what
  // cluster quad() has, and of what goes to block quad().
  KILN_DEVICE int firstCol(int group) const {
    return ownCol() + this->template indexOf<UnitKind::Narrow>(group) * Shape::kUnitCols;
  }
  /// The first column of the block's share.
  KILN_DEVICE int ownCol() const {
    if constexpr (Shape::kRowGroups % Shape::kBlocks == 0)
      return rank * (Shape::kRowGroups / Shape::kBlocks * Shape::kUnitCols);
    return Shape::firstOf(Shape::kRowGroups, Shape::kBlocks, rank) * Shape::kUnitCols;
  }
  KILN_DEVICE int col(int group) const { return firstCol(group) + 2 * place(); }
  /// Whether there is such a row, and such a group.
  KILN_DEVICE bool hasGroup(int n) const { return n / kGroups < rows && hasColumns(n % kGroups); }
  KILN_DEVICE bool hasColumns(int group) const { return this->template has<UnitKind::Narrow>(group); }

  /// Bytes that a block gets of the residual stream.
  KILN_DEVICE u32 residualBytes() const { return u32(rows) * Shape::kDim * u32(sizeof(T)); }

  KILN_DEVICE RowExchange(int rows, const DecodeRanks<kRanks> &ranks)
      : Reads(rows), ranks(ranks), mail{ranks.words(ranks.rank)} {}

  KILN_DEVICE void beginExchanges() { next = loadAcquire(mail.count()); }

  /// Posts the cluster's sums, to the other ranks first.
  KILN_DEVICE void postSums(const Vec<float, 2> (&sums)[kGroups]) const {
    const int rank = kRanks == 1 ? 0 : int(renewed(u32(ranks.rank))); // addresses of ranks do not stay in registers
#pragma unroll
    for (int to = 1; to <= kRanks; ++to) {
      const Mailboxes<Config, T> target{ranks.words((rank + to) % kRanks)};
#pragma unroll
      for (int i = 0; i < kGroups; ++i)
        if (quad() < rows && hasColumns(i))
          ranks.post(target.column(next, rank * Shape::kClusters + cluster, quad(), col(i)), sums[i], next + 1);
    }
  }

  /// The sum of what the first kSources clusters of each rank have posted for the lane's columns, for each row and
  /// group.
  template <int kSources> KILN_DEVICE void receive(Vec<float, 2> (&sums)[kAll]) {
    constexpr int kMostPairs = 8; // of which the words fit into registers
    constexpr int kAtOnce = min(min(kAll, 4), max(1, kMostPairs / ceilDiv(kRanks * kSources, 8)));
#pragma unroll
    for (int first = 0; first < kAll; first += kAtOnce)
      receiveSome<kSources, kAtOnce>(&sums[first], first);
    ++next;
  }

  /// Sends the lane's columns of the residual stream to all blocks of the cluster.
  KILN_DEVICE void sendResidual() const {
    const u32 receiver = u32(quad());
    const bool isBlock = Shape::kBlocks == 8 || receiver < u32(Shape::kBlocks);
    const auto barrier = inBlock(&shared.haveX, isBlock ? receiver : 0);
#pragma unroll
    for (int first = 0; first < kAll; first += 4) {
      Packet<16> chunk{};
#pragma unroll
      for (int i = 0; i < min(4, kAll - first); ++i)
        chunk.words[i] = pairFromFloat<T>(residual[first + i][0], residual[first + i][1]);
      transposeQuad(chunk.words, lane());
      const int n = first + place();
      if (isBlock && n < kAll && hasGroup(n))
        storeAsync(inBlock(reinterpret_cast<Packet<16> *>(&shared.x[n / kGroups][firstCol(n % kGroups)]), receiver),
                   chunk, barrier);
    }
  }

  /// The warp's part of the rows, as an operand of a product.
  KILN_DEVICE typename Products::Part residualPart(int i) const {
    typename Products::Part part{};
    if (this->template has<UnitKind::Wide>(i))
      part = Products::Part::read(&shared.x[0][this->template indexOf<UnitKind::Wide>(i) * Shape::kUnitDepth],
                                  Shape::kDimStride, rows, lane());
    return part;
  }
  /// Leaves the moments of the warp's columns for the other warps, from the product of the rows and a ninth one of ones
  /// with the rows. `which`: 0 or 1, of the wide products of a layer.
  KILN_DEVICE void putMoments(int which, const OneRowSums<T> &rowByRow) const {
    const float moment = rowByRow.moment(lane());
    if (lane() < 2)
      storeShared(&shared.moments[which][warp()][0][1 - lane()], Vec<float, 1>{moment});
  }
  KILN_DEVICE void putMoments(int which, const PartSums<T> &rowsByRows) const {
    auto &moments = shared.moments[which][warp()];
    const Vec<float, 2> squares = rowsByRows.values(), sums = rowsByRows.ninth();
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int column = 2 * place() + i; // which is a row, too
      if (column == quad() && column < rows)
        storeShared(&moments[column][1], Vec<float, 1>{squares[i]});
      if (quad() == 0 && column < rows)
        storeShared(&moments[column][0], Vec<float, 1>{sums[i]});
    }
  }
  /// The sum of what all warps have, ofWarp(warp): in the order of a tree with 8 leaves, to which warps are dealt out.
  /// kQuads neighbouring quads share it, 1, 2, 4 or 8, and all get the same bits, however many they are.
  template <int kQuads, class OfWarp> KILN_DEVICE Vec<float, 2> sumOfWarps(const OfWarp &ofWarp) const {
    constexpr int kLeaves = 8 / kQuads;
    Vec<float, 2> sums[kLeaves] = {};
#pragma unroll
    for (int first = 0; first < Shape::kWarps; first += 8)
#pragma unroll
      for (int i = 0; i < kLeaves; ++i)
        if (const int warp = first + quad() % kQuads * kLeaves + i; warp < Shape::kWarps)
          sums[i] += ofWarp(warp);
#pragma unroll
    for (int distance = 1; distance < kLeaves; distance *= 2)
#pragma unroll
      for (int i = 0; i < kLeaves; i += 2 * distance)
        sums[i] += sums[i + distance];
#pragma unroll
    for (u32 distance = 4; distance < 4 * kQuads; distance *= 2)
      sums[0] += {shuffleXor(sums[0][0], distance), shuffleXor(sums[0][1], distance)};
    return sums[0];
  }
  /// The mean of a row and 1 / √(variance + eps), from the moments for that product. By kQuads quads, as sumOfWarps.
  template <int kQuads> KILN_DEVICE Vec<float, 2> statistics(int which, int row, float eps) const {
    const Vec<float, 2> means =
        sumOfWarps<kQuads>([&](int warp) { return load<2>(&shared.moments[which][warp][row][0]); }) *
        (1.0f / Shape::kDim);
    return {means[0], rsqrt(fmax(means[1] - means[0] * means[0], 0.0f) + eps)};
  }

private:
  /// The cluster that is a source, of the first kSources of each rank.
  template <int kSources> KILN_DEVICE static int clusterOf(int source) {
    return kRanks == 1 ? source : source / kSources * Shape::kClusters + source % kSources;
  }

  template <int kSources, int kCount> KILN_DEVICE void receiveSome(Vec<float, 2> *sums, int first) const {
    constexpr int kTurns = ceilDiv(kRanks * kSources, 8);
    // Without values, too, registers would keep those of the exchange before from phase to phase.
    const StampedValue missing = {0.0f, next};
    StampedPair pairs[kCount][kTurns];
#pragma unroll
    for (int i = 0; i < kCount * kTurns; ++i)
      pairs[i / kTurns][i % kTurns] = {missing, missing};
    const auto isExpected = [&](int i, int turn) {
      return hasGroup(first + i) && turn * 8 + quad() < kRanks * kSources;
    };
    u32 tries = 0;
    for (bool complete = false; !complete;) {
#pragma unroll
      for (int i = 0; i < kCount; ++i)
#pragma unroll
        for (int turn = 0; turn < kTurns; ++turn)
          // Words that are there are not read again: repeated reads delay the copies of weights.
          if (isExpected(i, turn) && !pairs[i][turn].has(next + 1))
            pairs[i][turn] = ranks.peek(mail.column(next, clusterOf<kSources>(turn * 8 + quad()), (first + i) / kGroups,
                                                    col((first + i) % kGroups)));
      complete = true;
#pragma unroll
      for (int i = 0; i < kCount; ++i)
#pragma unroll
        for (int turn = 0; turn < kTurns; ++turn)
          complete &= !isExpected(i, turn) || pairs[i][turn].has(next + 1);
      if (!complete)
        ranks.retry(tries++);
    }
    syncWarp();
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      Vec<float, 2> sum{};
#pragma unroll
      for (int turn = 0; turn < kTurns; ++turn)
        if (isExpected(i, turn))
          sum += pairs[i][turn].values();
#pragma unroll
      for (u32 distance = 4; distance < kWarpSize; distance *= 2)
        sum += {shuffleXor(sum[0], distance), shuffleXor(sum[1], distance)};
      sums[i] = sum;
    }
  }
};

} // namespace kiln
