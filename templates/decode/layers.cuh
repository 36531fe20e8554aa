//===- layers.cuh - all layers of GPT-2 for one token of a few rows, in one kernel ----===//
//
// The whole of @decode, as phases of one kernel whose blocks stay: no launch, no wait for memory between phases, since
// the weights of the next phases are under way all the time (decode/units.cuh). Who computes what is in
// decode/shape.cuh. First, each block embeds the tokens, for its columns of the residual stream. A layer takes these
// phases:
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
// The first keys and values of the next layer's cache (loadKeys), and with kLead = 2 what the next product needs of its
// weights, are taken into registers before a phase waits for other clusters.
//
// A buffer that other blocks send to is free again when they send: each of them needs, for what it sends, something
// that this block has given after its last read of the buffer. For that every cluster has hidden channels.
//
// Products run in the tensor cores with rows on the short side, of which an instruction has 8, or of a single row twice
// the depth, with the same bits (decode/units.cuh); the sums of warps, blocks and clusters are added in orders that
// depend on the shape alone. So a row's bits do not depend on other rows, and not on how many rows the kernel was made
// for.
//
// Launch: grid (kBlocks · kClusters), clusters of kBlocks, all resident; block 32 · (kWarps + 1). The last warp is the
// producer.
//
// Shared memory, all dynamic: DecodeStorage (decode/shape.cuh), of which a stage is kStageBytes.
//
// Config (all constants):
//   kRanks                                     GPUs that share the model (decode/ranks.cuh); 1: one alone
//   kLayers, kDim, kHeads, kHidden, kContext   extents, heads and hidden channels of a rank; heads have 64 channels
//   kCols                                      columns of a rank's product for the logits, a multiple of 8
//   kRows                                      the most rows: 1, 2, 4 or 8
//   kBlocks                                    of a cluster, up to 8
//   kClusters                                  that can be resident at once
//   kStages                                    of the ring of weights
//   kWarpParts                                 the most parts of a unit that a warp multiplies
//   kInFlight, kLogitsInFlight                 units that are under way at a time, at most, of layers and of the logits
//   kAhead                                     units that a warp takes into registers before it waits for rows
//   kLead                                      waits in front of which it does so: 1, for rows, or 2, for clusters, too
//   kDeep                                      keys of a query that a lane takes at once
//   kDirect                                    slots of a query that go to all blocks as they are
//
// Functors:
//   Token     of a row: operator()(int row)
//   Position  of a row's token: operator()(int row)
//   Embed     operator()(int token, int position, int col): two columns of the embedded token, Vec<float, 2>
//   Norm      kEps; operator()(Vec<float, 2> product, Vec<float, 2> weights, float mean, float rstd): the product with
//             the normalised row, from that with the row and the sums of the weights. Of the logits: Operands
//             operands(int col): what it reads for two columns; operator()(Vec<float, 2> x, float mean, float rstd,
//             Operands): the normalised x
//   Wide      Operands operands(int col), operator()(Vec<float, 2> product, Operands): the result of two columns
//   Narrow    Operands operands(int col), operator()(Vec<float, 2> product, Vec<float, 2> x, Operands): the next x
//   Score     of a product of query and key
//   Logits    operator()(Vec<float, 1> product, int row, int col): stores it, for all ranks
//
//===----------------------------------------------------------------------===//
#pragma once

#include "decode/attention.cuh"
#include "decode/phase_times.cuh"
#include "decode/shape.cuh"
#include "decode/units.cuh"
#include "device/barrier.cuh"
#include "device/base.cuh"
#include "device/cluster.cuh"
#include "device/grid.cuh"
#include "device/index.cuh"
#include "device/tensor_copy.cuh"
#include "device/vec.cuh"
#include "parameter_array.cuh"

namespace kiln {

template <class Config, class T>
constexpr SharedBytes kDecodeLayersShared = {0, int(sizeof(DecodeStorage<Config, T>))};

/// A thread of the kernel. All threads make one; then the producer calls produce(), and the others the phases.
template <class Config, class T> class DecodeLayers : protected DecodeAttention<Config, T> {
public:
  using Attention = DecodeAttention<Config, T>;
  using Shape = DecodeShape<Config, T>;
  static constexpr int kRows = Shape::kRows, kRanks = Config::kRanks;

  /// Mailboxes are zero before the first launch; nothing else writes them.
  KILN_DEVICE DecodeLayers(int rows, const DecodeRanks<kRanks> &ranks)
      : Attention(rows, ranks), times(this->mail.phaseTimes()) {
    if (index() == Shape::kConsumers)
      initBarriers();
    syncThreads();
    syncCluster();
  }

  KILN_DEVICE bool isProducer() const { return index() >= Shape::kConsumers; }
  KILN_DEVICE bool hasHeads() const { return share.heads > 0; }

  /// Copies all weights of the block, in the order of the phases. The maps of weights of wide products have rank 3 and
  /// boxes [64, 8, kDim / 64], those of narrow products rank 2 and boxes [64, 8 · kMostOwn].
  template <class Maps> KILN_DEVICE void produce(const Maps &qkv, const Maps &proj, const Maps &fc, const Maps &fcproj,
                                                 const TensorMap &logits) {
    UnitCopies<Config, T> copies{shared};
    copyUntil(copies, unitsOfToken(), qkv, proj, fc, fcproj, logits);
  }

  /// Takes the rows' tokens and positions.
  template <class Token, class Position> KILN_DEVICE void begin(const Token &token, const Position &position) {
    waitForDependencies();
    beginExchanges();
    // No block of any rank arrives before this one has posted sums.
    if (kRanks > 1 && index() == 0)
      arrivalsOfRanks = loadAcquire(mail.arrivalsOfRanks());
    if (index() < rows) {
      shared.tokens[index()] = token(index());
      shared.newest[index()] = position(index());
    }
    meet();
  }

  /// Embeds the tokens.
  template <class Embed> KILN_DEVICE void embed(const Embed &embed) {
    beginPhase(DecodePhase::Embed);
#pragma unroll
    for (int n = 0; n < kAll; ++n)
      if (const int row = n / kGroups; hasGroup(n))
        residual[n] = embed(shared.tokens[row], shared.newest[row], col(n % kGroups));
    if (hasHeads()) {
      sendResidual();
      if (Config::kLead == 2)
        takeQkv();
    }
    if (index() == 0) {
      shared.hasSlots = hasSlots();
      shared.partBytes = partBytes();
    }
  }

  /// Loads the first keys of a layer, which have no time to come when the queries are there.
  KILN_DEVICE void loadKeys(const DecodeCache<T> &cache) {
    beginPhase(DecodePhase::Keys);
    if (hasHeads())
      loadEarly(cache);
  }

  /// The wide product for queries, keys and values.
  template <class Norm, class Wide> KILN_DEVICE void qkv(const Norm &norm, const Wide &epilogue) {
    beginPhase(DecodePhase::Qkv);
    if (Config::kLead == 1)
      takeQkv();
    const auto column = [&](int unit) { return columnOfHead(unit); };
    const auto target = [&](int unit, int row) {
      const auto at = placeOf(unit);
      return &shared.qkv[row * share.heads + at.piece / 3][at.piece % 3][at.col];
    };
    this->template wide<0, Shape::kFewestQkv, Shape::kMostQkv>(qkvUnits(), norm, epilogue, column, target,
                                                               shared.haveQkv);
  }

  /// The attention of the cluster's heads, over a layer's cache.
  template <class Score> KILN_DEVICE void attention(const DecodeCache<T> &cache, const Score &score) {
    beginPhase(DecodePhase::Attention);
    await(shared.haveQkv, parityOf(kOfLayer), u32(rows * share.heads * 3 * 64) * u32(sizeof(T)));
    attend(cache, score);
    if (shared.hasSlots) {
      meet();
      sendSlots();
    }
    ahead.template take<UnitKind::Narrow, Shape::kFewestHeads>(*this, share.heads);
    const auto own = ownPart(cache, firstCombined(), score);
    await(shared.haveParts, parityOf(kOfLayer), shared.partBytes);
    combineParts(cache, score, own);
    meet();
  }

  /// The narrow product of the attention's output.
  KILN_DEVICE void proj() {
    beginPhase(DecodePhase::Proj);
    this->template narrow<Shape::kFewestHeads>(share.heads, &shared.attended[0][0], Shape::kAttendedStride);
  }

  /// The wide product of the MLP.
  template <class Norm, class Wide> KILN_DEVICE void fc(const Norm &norm, const Wide &epilogue) {
    beginPhase(DecodePhase::Fc);
    if (Config::kLead == 1)
      takeFc();
    const auto column = [&](int unit) { return columnOfHidden(unit); };
    const auto target = [&](int unit, int row) {
      const auto at = placeOf(unit);
      return &shared.hidden[row][at.piece * 64 + at.col];
    };
    this->template wide<1, Shape::kFewestFc, Shape::kMostFc>(fcUnits(), norm, epilogue, column, target,
                                                             shared.haveHidden);
  }

  /// The narrow product of the MLP.
  KILN_DEVICE void fcproj() {
    beginPhase(DecodePhase::Fcproj);
    ahead.template take<UnitKind::Narrow, Shape::kFewestHiddens>(*this, share.hiddens);
    await(shared.haveHidden, parityOf(kOfLayer), u32(rows * share.hiddens * 64) * u32(sizeof(T)));
    this->template narrow<Shape::kFewestHiddens>(share.hiddens, &shared.hidden[0][0], Shape::kHiddenStride);
  }

  /// Adds the sums of the clusters with heads to the residual stream.
  template <class Narrow> KILN_DEVICE void mid(const Narrow &epilogue) {
    beginPhase(DecodePhase::Mid);
    if (Config::kLead == 2)
      takeFc();
    this->template add<Shape::kHeadClusters>(epilogue);
    sendResidual();
  }
  /// Adds the sums of all clusters to the residual stream.
  template <class Narrow> KILN_DEVICE void out(const Narrow &epilogue, bool isLast) {
    beginPhase(DecodePhase::Out);
    if (Config::kLead == 2 && hasHeads() && !isLast)
      takeQkv();
    this->template add<Shape::kClusters>(epilogue);
    if (hasHeads() || isLast)
      sendResidual();
    else
      meet(); // nothing else lies between the sums of fc that were read and those of the next layer
    parities ^= kOfLayer;
  }

  /// The product for the logits, and the end of the token.
  template <class Norm, class Logits> KILN_DEVICE void logits(const Norm &norm, const Logits &epilogue) {
    beginPhase(DecodePhase::Logits);
    typename Norm::Operands with[kWideParts][Attention::RowParts::kWords];
#pragma unroll
    for (int i = 0; i < kWideParts; ++i)
#pragma unroll
      for (int word = 0; word < Attention::RowParts::kWords; ++word)
        with[i][word] = norm.operands(depthOf(i, word));
    Rows x = awaitRows();
    putMomentsOf(0, x);
    meet();
    normalize(x, norm, with);
    for (int first = 0; first < logitUnits(); first += Shape::kBatch) {
      const int panel = first / Shape::kBatch % 2 * Shape::kBatch;
#pragma unroll
      for (int i = 0; i < Shape::kBatch; ++i)
        if (first + i < logitUnits())
          putSums(panel + i, product(x, this->template takeUnit<UnitKind::Wide>()));
      meet();
      for (int item = index(); item < Shape::kBatch * kRows * 4; item += Shape::kConsumers) {
        const int row = item / 4 % kRows, i = item / 4 / kRows;
        if (row >= rows || first + i >= logitUnits())
          continue;
        const Vec<float, 2> sums = this->template sumOfPanel<1>(panel + i, row);
        const int col = columnOfLogits(first + i) + 2 * place();
        epilogue(Vec<float, 1>{sums[0]}, row, col);
        epilogue(Vec<float, 1>{sums[1]}, row, col + 1);
      }
    }
    if (blockIndexX() == 0 && index() == 0)
      *mail.count() = next;
    times.end();
  }

  /// Waits until the logits of all ranks are there.
  KILN_DEVICE void awaitLogitsOfRanks() {
    meet();
    arriveAtRanks();
    awaitRanks();
  }

protected:
  using Attention::ahead, Attention::attend, Attention::await, Attention::awaitRows, Attention::beginExchanges,
      Attention::cluster, Attention::col, Attention::columnOfHead, Attention::columnOfHidden, Attention::columnOfLogits,
      Attention::combineParts, Attention::depthOf, Attention::fcUnits, Attention::firstCombined, Attention::hasGroup,
      Attention::hasSlots, Attention::index, Attention::kAll, Attention::kGroups, Attention::kWideParts,
      Attention::loadEarly, Attention::logitUnits, Attention::mail, Attention::meet, Attention::next,
      Attention::normalize, Attention::ownPart, Attention::partBytes, Attention::place, Attention::placeOf,
      Attention::kOfLayer, Attention::parities, Attention::parityOf, Attention::postSums, Attention::product,
      Attention::putMomentsOf, Attention::putSums, Attention::quad, Attention::qkvUnits, Attention::rank,
      Attention::ranks, Attention::renewIndex, Attention::residual, Attention::rows, Attention::sendResidual,
      Attention::sendSlots, Attention::share, Attention::shared, Attention::unitsOfLayer;
  using typename Attention::Rows;

  /// Units of a block for a token.
  KILN_DEVICE u32 unitsOfToken() const { return u32(Config::kLayers * unitsOfLayer() + logitUnits()); }

  /// Copies units until so many have been copied, if this thread is the one that does.
  template <class Maps>
  KILN_DEVICE void copyUntil(UnitCopies<Config, T> &copies, u32 count, const Maps &qkv, const Maps &proj,
                             const Maps &fc, const Maps &fcproj, const TensorMap &logits) const {
    if (index() != Shape::kConsumers)
      return;
    while (copies.copied < count) {
      const int unit = int(copies.copied % unitsOfToken());
      if (const int layer = unit / unitsOfLayer(); layer < Config::kLayers)
        copyOfLayer(copies, unit % unitsOfLayer(), qkv[layer], proj[layer], fc[layer], fcproj[layer]);
      else
        copies.template copyWide<Shape::kLogitsInFlight>(logits,
                                                         columnOfLogits(unit - Config::kLayers * unitsOfLayer()));
    }
  }

  /// The two halves of a barrier of all blocks of all ranks, for the first thread of a block: what threads did before
  /// the block's barrier in front of this is visible behind the block's barrier after it.
  KILN_DEVICE void arriveAtRanks() {
    if (index() != 0)
      return;
    for (int to = 0; to < kRanks; ++to)
      countAtRank(Mailboxes<Config, T>{ranks.words(to)}.arrivalsOfRanks());
    arrivalsOfRanks += u32(kRanks) * gridBlocksX();
  }
  KILN_DEVICE void awaitRanks() const {
    if (index() == 0)
      awaitRank(mail.arrivalsOfRanks(), arrivalsOfRanks, ranks.stop);
  }

  PhaseTimes times;

private:
  KILN_DEVICE void beginPhase(DecodePhase phase) {
    renewIndex();
    times.begin(phase);
  }

  KILN_DEVICE void initBarriers() {
    for (int stage = 0; stage < Shape::kStages; ++stage) {
      initBarrier(shared.full[stage], 1);
      initBarrier(shared.empty[stage], Shape::kWarps);
    }
    initBarrier(shared.met, Shape::kConsumers);
    initBarrier(shared.haveX, 1);
    initBarrier(shared.haveQkv, 1);
    initBarrier(shared.haveParts, 1);
    initBarrier(shared.haveHidden, 1);
    initBarrier(shared.chosen, 1);
    initBarrier(shared.cached, 1);
    fenceBarriers();
  }

  KILN_DEVICE void takeQkv() { ahead.template take<UnitKind::Wide, Shape::kFewestQkv>(*this, qkvUnits()); }
  KILN_DEVICE void takeFc() { ahead.template take<UnitKind::Wide, Shape::kFewestFc>(*this, fcUnits()); }

  KILN_DEVICE void copyOfLayer(UnitCopies<Config, T> &copies, int unit, const TensorMap &qkv, const TensorMap &proj,
                               const TensorMap &fc, const TensorMap &fcproj) const {
    const int heads = unit - qkvUnits(), hiddens = heads - share.heads;
    if (heads < 0)
      copies.copyWide(qkv, columnOfHead(unit));
    else if (hiddens < 0)
      copies.copyNarrow(proj, (share.firstHead + heads) * 64, this->ownCol());
    else if (hiddens < fcUnits())
      copies.copyWide(fc, columnOfHidden(hiddens));
    else
      copies.copyNarrow(fcproj, (share.firstHidden + hiddens - fcUnits()) * 64, this->ownCol());
  }

  u32 arrivalsOfRanks = 0; ///< of the first thread: those after which all blocks of all ranks have arrived
};

} // namespace kiln
