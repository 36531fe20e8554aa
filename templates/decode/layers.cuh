//===- layers.cuh - all layers of GPT-2 for one token of a few rows, in one kernel ----===//
//
// The whole of @decode but the embedding, as phases of one kernel whose blocks stay: no launch, no wait for memory
// between phases, since the weights of the next phases are under way all the time (decode/units.cuh). Who computes what
// is in decode/shape.cuh. A layer takes these phases:
//
//   qkv        wide product of the normalised rows: queries, keys and values of the cluster's heads, sent to its blocks
//   attention  of the cluster's heads, keys spread over blocks and warps; parts are sent to all blocks
//   proj       narrow product over the depth that these heads are; sums are posted to all clusters
//   mid        the residual stream plus all clusters' sums
//   fc         wide product: the cluster's hidden channels
//   fcproj     narrow product over these
//   out        the residual stream plus all clusters' sums
//
// and at the end comes the product for the logits, whose columns all blocks share. Inside a cluster blocks exchange
// through distributed shared memory (st.async, whose bytes a barrier counts); between clusters twice a layer through
// memory (decode/row_exchange.cuh). Clusters without heads do not take part in the first three.
//
// A buffer that other blocks send to is free again when they send: each of them needs, for what it sends, something
// that this block has given after its last read of the buffer. For that every cluster has hidden channels.
//
// Products run in the tensor cores with rows on the short side, of which an instruction has 8; the sums of warps,
// blocks and clusters are added in orders that depend on the shape alone. So a row's bits do not depend on other rows,
// and not on how many rows the kernel was made for.
//
// Launch: grid (8 · kClusters), clusters of 8, all resident; block 32 · (kDim / 64 + 1). The last warp is the producer.
//
// Shared memory, all dynamic: DecodeStorage (decode/shape.cuh), of which a stage is kDim · 16 bytes.
//
// Config (all constants):
//   kLayers, kDim, kHeads, kHidden, kContext   extents; heads have 64 channels
//   kCols                                      columns of the product for the logits, a multiple of 8
//   kRows                                      the most rows: 1, 2, 4 or 8
//   kClusters                                  that can be resident at once
//   kStages                                    of the ring of weights
//   kAhead                                     units that a warp takes into registers before it waits for rows
//   kDeep                                      keys of a query that a lane loads before it needs the first
//
// Functors:
//   Norm      kEps; Operands operands(int col): what it reads for two columns; operator()(Vec<float, 2> x, float mean,
//             float rstd, Operands): the normalised x
//   Wide      Operands operands(int col), operator()(Vec<float, 2> product, Operands): the result of two columns
//   Narrow    Operands operands(int col), operator()(Vec<float, 2> product, Vec<float, 2> x, Operands): the next x
//   Score     of a product of query and key
//   Position  of a row's new token
//   Logits    operator()(Vec<float, 1> product, int row, int col): stores it
//
//===----------------------------------------------------------------------===//
#pragma once

#include "decode/attention.cuh"
#include "decode/per_layer.cuh"
#include "decode/row_exchange.cuh"
#include "decode/shape.cuh"
#include "decode/units.cuh"
#include "device/barrier.cuh"
#include "device/base.cuh"
#include "device/cluster.cuh"
#include "device/grid.cuh"
#include "device/index.cuh"
#include "device/tensor_copy.cuh"
#include "device/vec.cuh"
#include "device/warp.cuh"

namespace kiln {

template <class Config, class T>
constexpr SharedBytes kDecodeLayersShared = {0, int(sizeof(DecodeStorage<Config, T>))};

/// A thread of the kernel. All threads make one; then the producer calls produce(), and the others the phases.
template <class Config, class T> class DecodeLayers {
public:
  using Shape = DecodeShape<Config, T>;
  static constexpr int kRows = Shape::kRows, kBlocks = Shape::kBlocks;

  /// `mail` is zero before the first launch; nothing else writes it.
  template <class Position>
  KILN_DEVICE DecodeLayers(int rows, StampedValue *mail, const Position &position)
      : shared(dynamicShared<DecodeStorage<Config, T>>()), cluster(int(blockIndexX()) / kBlocks),
        share(Shape::share(cluster)), reads{shared}, exchange{shared, {mail}, rows, cluster},
        heads{shared, share, rows, exchange.rank}, rows(rows) {
    if (threadIndex() == Shape::kConsumers)
      initBarriers();
    if (threadIndex() < rows)
      shared.newest[threadIndex()] = position(int(threadIndex()));
    syncThreads();
    syncCluster();
  }

  KILN_DEVICE bool isProducer() const { return threadIndex() >= Shape::kConsumers; }
  KILN_DEVICE bool hasHeads() const { return share.heads > 0; }

  /// Copies all weights of the block, in the order of the phases. The maps of weights of wide products have rank 3 and
  /// boxes [64, 8, kDim / 64], those of narrow products rank 2 and boxes [64, kDim / 8].
  template <class Maps> KILN_DEVICE void produce(const Maps &qkv, const Maps &proj, const Maps &fc, const Maps &fcproj,
                                                 const TensorMap &logits) {
    if (threadIndex() != Shape::kConsumers)
      return;
    UnitCopies<Config, T> copies{shared};
    const int rank = exchange.rank, ownCol = rank * Shape::kOwnCols;
    for (int layer = 0; layer < Config::kLayers; ++layer) {
      for (int head = 0; head < share.heads; ++head)
        for (int part = 0; part < 3; ++part)
          copies.copyWide(qkv[layer], columnOfHead(3 * head + part));
      for (int head = 0; head < share.heads; ++head)
        copies.copyNarrow(proj[layer], (share.firstHead + head) * 64, ownCol);
      for (int unit = 0; unit < share.hiddens; ++unit)
        copies.copyWide(fc[layer], columnOfHidden(unit));
      for (int unit = 0; unit < share.hiddens; ++unit)
        copies.copyNarrow(fcproj[layer], (share.firstHidden + unit) * 64, ownCol);
    }
    for (int unit = 0; unit < logitUnits(); ++unit)
      copies.copyWide(logits, columnOfLogits(unit));
  }

  /// Takes the embedded tokens, [rows, kDim].
  template <class X> KILN_DEVICE void begin(const X *x) {
    waitForDependencies();
    exchange.begin();
#pragma unroll
    for (int row = 0; row < kRows; ++row)
      if (row < rows)
        exchange.residual[row] = load<2>(x + i64(row) * Shape::kDim + exchange.col());
    if (hasHeads())
      exchange.send();
  }

  /// The wide product for queries, keys and values.
  template <class Norm, class Wide> KILN_DEVICE void qkv(const Norm &norm, const Wide &epilogue) {
    const auto column = [&](int unit) { return columnOfHead(unit); };
    const auto place = [&](int unit, int row, int pair) {
      return &shared.qkv[row * share.heads + unit / 3][unit % 3][exchange.rank * 8 + 2 * pair];
    };
    wide<3 * Shape::kMostHeads>(3 * share.heads, norm, epilogue, column, place, shared.haveQkv);
  }

  /// The attention of the cluster's heads, over a layer's cache.
  template <class Score> KILN_DEVICE void attention(const DecodeCache<T> &cache, const Score &score) {
    typename DecodeAttention<Config, T>::Loaded early[DecodeAttention<Config, T>::kEarly];
    heads.loadEarly(cache, early);
    await(shared.haveQkv, qkvParity, u32(rows * share.heads * 3 * 64) * u32(sizeof(T)));
    heads.attend(cache, early, score);
    meet();
    heads.sendParts();
    ahead.take(reads, share.heads);
    await(shared.haveParts, partsParity, heads.bytes());
    heads.combine();
    meet();
  }

  /// The narrow product of the attention's output.
  KILN_DEVICE void proj() { narrow(share.heads, &shared.attended[0][0], Shape::kAttendedStride); }

  /// The wide product of the MLP.
  template <class Norm, class Wide> KILN_DEVICE void fc(const Norm &norm, const Wide &epilogue) {
    const auto column = [&](int unit) { return columnOfHidden(unit); };
    const auto place = [&](int unit, int row, int pair) {
      return &shared.hidden[row][unit * 64 + exchange.rank * 8 + 2 * pair];
    };
    wide<Shape::kMostHiddens>(share.hiddens, norm, epilogue, column, place, shared.haveHidden);
  }

  /// The narrow product of the MLP.
  KILN_DEVICE void fcproj() {
    ahead.take(reads, share.hiddens);
    await(shared.haveHidden, hiddenParity, u32(rows * share.hiddens * 64) * u32(sizeof(T)));
    narrow(share.hiddens, &shared.hidden[0][0], Shape::kHiddenStride);
  }

  /// Adds the sums of the clusters with heads to the residual stream.
  template <class Narrow> KILN_DEVICE void mid(const Narrow &epilogue) {
    add<Shape::kHeadClusters>(epilogue);
    exchange.send();
  }
  /// Adds the sums of all clusters to the residual stream.
  template <class Narrow> KILN_DEVICE void out(const Narrow &epilogue, bool isLast) {
    add<Shape::kClusters>(epilogue);
    if (hasHeads() || isLast)
      exchange.send();
  }

  /// The product for the logits, and the end of the kernel.
  template <class Norm, class Logits> KILN_DEVICE void logits(const Norm &norm, const Logits &epilogue) {
    const RowPart x = awaitRows(norm);
    for (int first = 0; first < logitUnits(); first += Shape::kBatch) {
      const int panel = first / Shape::kBatch % 2 * Shape::kBatch;
#pragma unroll
      for (int i = 0; i < Shape::kBatch; ++i)
        if (first + i < logitUnits())
          putSums(panel + i, x, reads.take());
      meet();
      for (int item = int(threadIndex()); item < Shape::kBatch * kRows * 4; item += Shape::kConsumers) {
        const int pair = item % 4, row = item / 4 % kRows, i = item / 4 / kRows;
        if (row >= rows || first + i >= logitUnits())
          continue;
        const Vec<float, 2> product = sumOfWarps(panel + i, row, pair);
        const int col = columnOfLogits(first + i) + 2 * pair;
        epilogue(Vec<float, 1>{product[0]}, row, col);
        epilogue(Vec<float, 1>{product[1]}, row, col + 1);
      }
    }
    if (blockIndexX() == 0 && threadIndex() == 0)
      *exchange.mail.count() = exchange.next;
  }

private:
  KILN_DEVICE void initBarriers() {
    for (int stage = 0; stage < Shape::kStages; ++stage) {
      initBarrier(shared.full[stage], 1);
      initBarrier(shared.empty[stage], Shape::kWarps);
    }
    initBarrier(shared.met, Shape::kWarps);
    initBarrier(shared.haveX, 1);
    initBarrier(shared.haveQkv, 1);
    initBarrier(shared.haveParts, 1);
    initBarrier(shared.haveHidden, 1);
    fenceBarriers();
  }

  // The first columns of the block's units.
  KILN_DEVICE int columnOfHead(int unit) const {
    return unit % 3 * Shape::kDim + (share.firstHead + unit / 3) * 64 + exchange.rank * 8;
  }
  KILN_DEVICE int columnOfHidden(int unit) const { return (share.firstHidden + unit) * 64 + exchange.rank * 8; }
  KILN_DEVICE int columnOfLogits(int unit) const {
    return (unit * kBlocks * Shape::kClusters + int(blockIndexX())) * 8;
  }
  KILN_DEVICE int logitUnits() const {
    constexpr int kAll = kBlocks * Shape::kClusters;
    return (Config::kCols / 8 + kAll - 1 - int(blockIndexX())) / kAll;
  }

  /// All multiplying warps of the block wait for each other.
  KILN_DEVICE void meet() {
    syncWarp();
    if (laneIndex() == 0)
      arrive(shared.met);
    waitBarrier(shared.met, metParity);
    metParity ^= 1;
  }

  /// Waits for bytes that blocks of the cluster send.
  KILN_DEVICE void await(SharedBarrier &barrier, u32 &parity, u32 bytes) {
    if (threadIndex() == 0)
      arriveExpecting(barrier, bytes);
    waitClusterBarrier(barrier, parity);
    parity ^= 1;
  }

  /// Waits for the residual stream and normalises the warp's part of it.
  template <class Norm> KILN_DEVICE RowPart awaitRows(const Norm &norm) {
    typename Norm::Operands with[4][2];
    exchange.loadFor(norm, with);
    await(shared.haveX, xParity, exchange.bytes());
    return exchange.normalized(norm, with);
  }

  /// Leaves the warp's sums for a unit in the panel.
  KILN_DEVICE void putSums(int place, const RowPart &x, const UnitPart &part) {
    PartSums<T> sums;
    sums.add(x, part);
    if (exchange.index() < rows)
      storeShared(&shared.panel[warpIndex()][place][exchange.index()][2 * exchange.place()], sums.values());
  }
  KILN_DEVICE Vec<float, 2> sumOfWarps(int place, int row, int pair) const {
    Vec<float, 2> sum{};
#pragma unroll
    for (int warp = 0; warp < Shape::kWarps; ++warp)
      sum += load<2>(&shared.panel[warp][place][row][2 * pair]);
    return sum;
  }

  /// A wide product of `units` units, whose first columns are column(unit). Each pair of results goes to its place in
  /// all blocks of the cluster, where `barrier` counts the bytes; lane i gives them to block i % 8.
  template <int kMost, class Norm, class Wide, class Column, class Place>
  KILN_DEVICE void wide(int units, const Norm &norm, const Wide &epilogue, const Column &column, const Place &place,
                        SharedBarrier &barrier) {
    constexpr int kTurns = ceilDiv(kMost * kRows * 4 * kBlocks, Shape::kConsumers);
    const auto pairOf = [](int item) { return item / kBlocks % 4; };
    const auto rowOf = [](int item) { return item / kBlocks / 4 % kRows; };
    const auto unitOf = [](int item) { return item / kBlocks / 4 / kRows; };
    ahead.take(reads, units);
    typename Wide::Operands with[kTurns];
#pragma unroll
    for (int turn = 0; turn < kTurns; ++turn) {
      const int item = turn * Shape::kConsumers + int(threadIndex());
      with[turn] = epilogue.operands(column(min(unitOf(item), units - 1)) + 2 * pairOf(item));
    }
    const RowPart x = awaitRows(norm);
    ahead.forEach(reads, units, [&](int unit, const UnitPart &part) { putSums(unit, x, part); });
    meet();
#pragma unroll
    for (int turn = 0; turn < kTurns; ++turn) {
      const int item = turn * Shape::kConsumers + int(threadIndex()), row = rowOf(item), unit = unitOf(item);
      if (row < rows && unit < units)
        storeAsync(inSameBlock(taker, shared, place(unit, row, pairOf(item))),
                   epilogue(sumOfWarps(unit, row, pairOf(item)), with[turn]), inSameBlock(taker, shared, &barrier));
    }
  }

  /// A narrow product of rows in shared memory; the first units have been taken. Its sums are posted.
  KILN_DEVICE void narrow(int units, const T *from, int stride) {
    PartSums<T> sums;
    ahead.forEach(reads, units, [&](int unit, const UnitPart &part) {
      sums.add(rowPart(from + exchange.index() * stride + unit * 64), part);
    });
    exchange.postSums(sums);
  }
  /// 64 elements of the lane's row as the left operand.
  KILN_DEVICE RowPart rowPart(const T *row) const {
    RowPart part{};
#pragma unroll
    for (int step = 0; step < 4; ++step)
#pragma unroll
      for (int half = 0; half < 2; ++half)
        if (exchange.index() < rows)
          part.steps[step].words[2 * half] =
              loadPacked<2>(row + 16 * step + 8 * half + 2 * exchange.place()).packets[0].words[0];
    return part;
  }

  template <int kSources, class Narrow> KILN_DEVICE void add(const Narrow &epilogue) {
    const auto with = epilogue.operands(exchange.col());
    Vec<float, 2> sums[kRows];
    exchange.template receive<kSources>(sums);
#pragma unroll
    for (int row = 0; row < kRows; ++row)
      if (row < rows)
        exchange.residual[row] = epilogue(sums[row], exchange.residual[row], with);
  }

  DecodeStorage<Config, T> &shared;
  const int cluster;
  const DecodeShare share;
  UnitReads<Config, T> reads;
  UnitsAhead<Config, T> ahead;
  RowExchange<Config, T> exchange;
  const DecodeAttention<Config, T> heads;
  const int rows;
  const ClusterPointer<DecodeStorage<Config, T>> taker = inBlock(&shared, laneIndex() % kBlocks);
  u32 metParity = 0, xParity = 0, qkvParity = 0, partsParity = 0, hiddenParity = 0;
};

} // namespace kiln
