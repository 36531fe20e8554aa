// All layers of decode for a few rows, in one kernel whose blocks stay: clusters of blocks own heads and hidden
// channels.
#include "kernels/cost/Problem.h"
#include "kernels/cost/Work.h"
#include "kernels/families/DecodeRegion.h"
#include "kernels/families/Families.h"
#include "support/model/TargetName.h"

namespace kiln {

namespace {

// As in templates/decode/shape.cuh.
constexpr int64_t unitDepth = 64, unitCols = 8, batchUnits = 4, pieceGroups = 8;
constexpr int64_t mostRows = 8, mostParts = 31, mostBoxRows = 256, mostRingStages = 16;
constexpr int64_t ringAlignment = 1024;

/// Of any call of the function.
int64_t mostSequences(const DecodeRegion &region) {
  return valueAt(region.x().type.shape[0].expr(), upperBounds(*region.embed));
}

// The order of sums follows from these, so that they are the same for all numbers of rows of a plan.

/// Parts of a unit for each warp: a thread of fewer, larger warps has the registers that it needs. What does not fit
/// into them goes to memory, behind the copies of weights. Of several ranks, products are shorter, and more warps take
/// a smaller part in the exchange of sums.
int64_t warpPartsOf(const DecodeRegion &region) {
  return region.dim() <= 768 ? 1 : region.dim() <= 1280 || region.ranks() > 1 ? 2 : 4;
}
/// The most slots of a query that blocks do not combine: their parts take shared memory for each query.
int64_t mostDirectSlots(const DecodeRegion &region) { return mostSequences(region) == 1 ? 4 : 1; }
/// Keys that a lane takes at once. Of several ranks, warps of 2 parts have no registers for a third.
int64_t deepOf(const DecodeRegion &region) {
  return mostSequences(region) == 1 && (region.ranks() == 1 || warpPartsOf(region) != 2) ? 3 : 2;
}

/// So many clusters of so many blocks.
struct Clusters {
  int64_t blocks, count;
};

/// Who computes what, as DecodeShape of the template.
struct DecodeBlock {
  int64_t ranks, dim, heads, hiddens, blocks, clusters, rows, stages, warpParts, direct;

  DecodeBlock(const DecodeRegion &region, const Clusters &shape, int64_t rows, int64_t stages)
      : ranks(region.ranks()), dim(region.dim()), heads(region.heads()), hiddens(region.hidden() / unitDepth),
        blocks(shape.blocks), clusters(shape.count), rows(rows), stages(stages), warpParts(warpPartsOf(region)),
        direct(mostDirectSlots(region)) {}
  DecodeBlock(const DecodeRegion &region, const Tile &tile)
      : DecodeBlock(region, {setting(tile, "blocks"), setting(tile, "clusters")}, setting(tile, "rows"),
                    setting(tile, "stages")) {
    warpParts = setting(tile, "warp_parts");
    direct = setting(tile, "direct");
  }

  /// Where the part of one of `sharers` begins in `count` things, of which the first sharers have one more.
  static int64_t firstOf(int64_t count, int64_t sharers, int64_t which) {
    return which * (count / sharers) + std::min(which, count % sharers);
  }
  static int64_t partOf(int64_t count, int64_t sharers, int64_t which) {
    return firstOf(count, sharers, which + 1) - firstOf(count, sharers, which);
  }
  /// Groups of 64 hidden channels of a cluster; less than 1: there are too few of them for clusters of heads.
  int64_t hiddensOf(int64_t cluster) const {
    const int64_t withMore = heads % clusters, others = clusters - withMore;
    const int64_t ofMore = firstOf(2 * heads + hiddens, clusters, withMore) - 2 * firstOf(heads, clusters, withMore);
    const auto most = static_cast<int64_t>(llvm::divideCeil(hiddens, clusters));
    const int64_t ofOthers = std::min(hiddens - ofMore, others * most);
    return cluster < withMore ? partOf(hiddens - ofOthers, withMore, cluster)
                              : partOf(ofOthers, others, cluster - withMore);
  }
  bool isShared() const {
    for (int64_t cluster = 0; cluster < clusters; ++cluster)
      if (hiddensOf(cluster) < 1)
        return false;
    return true;
  }
  int64_t mostHiddens() const {
    int64_t most = 0;
    for (int64_t cluster = 0; cluster < clusters; ++cluster)
      most = std::max(most, hiddensOf(cluster));
    return most;
  }
  /// Of a unit of a wide and of a narrow product.
  int64_t wideParts() const { return dim / unitDepth; }
  int64_t narrowParts() const { return llvm::divideCeil(dim / unitCols, blocks); }
  int64_t mostUnitParts() const { return std::max(wideParts(), narrowParts()); }
  int64_t warps() const { return llvm::divideCeil(mostUnitParts(), warpParts); }
  int64_t stageBytes() const { return mostUnitParts() * unitCols * 128; }
  /// Whether tensor maps can copy units.
  bool hasLegalBoxes() const { return narrowParts() * unitCols <= mostBoxRows; }

  /// The size of DecodeStorage of the template, where sampling takes `sampling` bytes in place of the buffers.
  int64_t sharedBytes(int64_t sampling = 0) const {
    return llvm::alignTo(ringBytes() + std::max(bufferBytes(), sampling), ringAlignment);
  }

private:
  /// The ring of weights, barriers, and what else stays from token to token.
  int64_t ringBytes() const {
    const int64_t barriers = 2 * stages + 7, words = 2 * rows + 3, flags = rows + 1;
    return llvm::alignTo(stages * stageBytes() + barriers * 8 + words * 4 + flags, ringAlignment);
  }
  /// What phases leave for others.
  int64_t bufferBytes() const {
    const int64_t mostHeads = llvm::divideCeil(heads, clusters), queries = rows * mostHeads;
    const int64_t qkvUnits = llvm::divideCeil(pieceGroups * 3 * mostHeads, blocks);
    const int64_t fcUnits = llvm::divideCeil(pieceGroups * mostHiddens(), blocks);
    const int64_t panelUnits = std::max(qkvUnits + fcUnits, 2 * batchUnits);
    int64_t bytes = 0;
    auto add = [&](int64_t more) { bytes += llvm::alignTo(more, 16); };
    add(rows * (dim + 8) * 2);
    add(2 * warps() * rows * 8);
    add(warps() * panelUnits * (rows + 1) * unitCols * 4);
    add(queries * 3 * 64 * 2);
    add(warps() * queries * 64 * 4);
    const int64_t parts = blocks * std::min(direct, warps());
    add(parts * queries * 64 * 4);
    add(warps() * queries * 8);
    add(parts * queries * 8);
    add(rows * (mostHeads * 64 + 8) * 2);
    add(rows * (mostHiddens() * 64 + 8) * 2);
    return bytes;
  }
};

/// The clusters whose blocks have a multiprocessor each, all at once. The processing clusters of a GPU have up to 18
/// multiprocessors and differ in size, so that some are left over: of an H200's 132, 12 with 8 blocks to a cluster.
/// With 6 an H200 has 17 clusters; one that has only full processing clusters would have 16.
Clusters residentClusters(const Target &target, int64_t blocks) {
  const int64_t clusters = target.multiprocessors / 8;
  return {blocks, blocks == maxClusterBlocks ? clusters - 1 : clusters};
}

/// Of smaller clusters than the largest.
constexpr int64_t fewerBlocks = 6;

/// Units under way that keep the memory busy: about 45 KB of each multiprocessor.
int64_t unitsInFlight(const DecodeBlock &block) {
  return std::min<int64_t>(block.stageBytes() <= 16 * 1024 ? 3 : 2, block.stages);
}

/// The most clusters of those that share heads and hidden channels; none: a count of 0.
Clusters mostClusters(const DecodeRegion &region, Clusters resident) {
  for (; resident.count > 0; --resident.count)
    if (DecodeBlock(region, resident, 1, 1).isShared())
      return resident;
  return resident;
}

/// As many as run at once. Where smaller clusters have a head each and larger ones would have two, all would wait for
/// those. Of several ranks, no cluster has only hidden channels, if heads occupy more than half of them, but not all:
/// it would wait while others are in attention, and each cluster that posts costs all others.
Clusters clustersFor(const DecodeRegion &region, const Target &target) {
  const int64_t heads = region.heads();
  Clusters most = mostClusters(region, residentClusters(target, maxClusterBlocks));
  if (const Clusters smaller = mostClusters(region, residentClusters(target, fewerBlocks));
      most.count < heads && heads <= smaller.count && DecodeBlock(region, smaller, 1, 1).hasLegalBoxes())
    most = {smaller.blocks, heads};
  const Clusters withHeads = {most.blocks, heads};
  const bool areEnough = region.ranks() > 1 && 2 * heads > most.count && heads < most.count;
  return areEnough && DecodeBlock(region, withHeads, 1, 1).isShared() ? withHeads : most;
}

int64_t rowsFor(const Op &op, const DimBinding &upper) {
  return static_cast<int64_t>(llvm::PowerOf2Ceil(static_cast<uint64_t>(valueAt(rowsOf(op), upper))));
}

bool fitsTemplate(const DecodeRegion &region) {
  return dtypeSize(region.dtype()) == 2 && region.headSize() == unitDepth && region.dim() % unitDepth == 0 &&
         region.hidden() % unitDepth == 0 && region.dim() / unitDepth <= mostParts && hasOneToken(region.x().type) &&
         mostSequences(region) <= mostRows && *region.lastWeight().type.shape[0].asConstant() % unitCols == 0 &&
         !region.positions().definingOp() && !region.tokens().definingOp();
}

/// The most stages, up to those of the block, with which it fits into the shared memory; 0: none does.
int64_t mostStages(DecodeBlock block, const Target &target, int64_t sampling = 0) {
  while (block.stages > 0 && block.sharedBytes(sampling) > target.sharedPerBlock)
    --block.stages;
  return block.stages;
}

/// As in templates/decode/generate.cuh: shared memory that sampling needs, at most.
constexpr int64_t samplingBytes = 24 * 1024;

/// Slots of a query that blocks do not combine: as many as take no stage from the ring beside sampling. A token of
/// 1558M takes 852 us with 3 of them and 7 stages, 863 with 4 and 6.
int64_t directSlotsFor(DecodeBlock block, const Target &target) {
  auto stagesWith = [&](int64_t direct) {
    block.direct = direct;
    return mostStages(block, target, samplingBytes);
  };
  int64_t direct = block.direct;
  while (direct > 1 && stagesWith(direct) < stagesWith(1))
    --direct;
  return direct;
}

bool acceptsDecodeLayers(const Op &op, const Target &target, const DimBinding &upper) {
  std::optional<DecodeRegion> region = DecodeRegion::of(op);
  if (!region || !target.hasWgmma || !fitsTemplate(*region))
    return false;
  const Clusters clusters = clustersFor(*region, target);
  return clusters.count > 0 && mostStages({*region, clusters, rowsFor(op, upper), mostRingStages}, target) > 1;
}

std::vector<Tile> decodeConfigurations(const Op &op, const Target &target, const DimBinding &upper) {
  const DecodeRegion region = *DecodeRegion::of(op);
  const Clusters clusters = clustersFor(region, target);
  DecodeBlock block(region, clusters, rowsFor(op, upper), mostRingStages);
  block.direct = directSlotsFor(block, target);
  block.stages = mostStages(block, target);
  const int64_t rows = block.rows, warpParts = block.warpParts, inFlight = unitsInFlight(block);
  // Fewer multiprocessors than others have keep the memory busy with more copies each, but for layers that would delay
  // what clusters tell each other.
  const bool isSmaller = clusters.blocks < maxClusterBlocks;
  // Where weights take longer than the phases, stages that are free sooner only put more copies in front of what
  // clusters tell each other. Of several ranks, each has fewer weights. A thread of so many warps has no registers for
  // two units when it leads.
  const bool isFewRegisters = block.warps() > 12;
  const int64_t lead = warpParts == 1 || isSmaller || (region.ranks() > 1 && warpParts == 2 && !isFewRegisters) ? 2 : 1;
  // As far as registers go.
  int64_t ahead = rows == 1 || (rows == 2 && warpParts <= 2) ? 2 : 1;
  if (rows == 1 && warpParts == 1)
    ahead = 4;
  else if (rows == 1 && warpParts == 2 && region.ranks() == 1)
    ahead = 3;
  if (lead == 2 && isFewRegisters)
    ahead = 1;
  return {{{"blocks", clusters.blocks},
           {"clusters", clusters.count},
           {"rows", rows},
           {"stages", block.stages},
           {"in_flight", inFlight},
           {"logits_in_flight", isSmaller ? block.stages : inFlight},
           {"warp_parts", warpParts},
           {"ahead", ahead},
           {"lead", lead},
           {"deep", deepOf(region)},
           {"direct", block.direct}}};
}

bool isSoundDecodeLayers(const Op &op, const Tile &tile) {
  const DecodeBlock block(*DecodeRegion::of(op), tile);
  return block.blocks >= 1 && block.blocks <= maxClusterBlocks && block.hasLegalBoxes() && block.warpParts >= 1 &&
         block.warps() <= mostParts && setting(tile, "lead") <= 2 && setting(tile, "deep") <= 4 && block.direct >= 1 &&
         block.direct * block.blocks <= 32 && block.clusters <= 1024 && block.isShared() && block.rows <= mostRows &&
         isPowerOfTwo(block.rows);
}

Launch launchWith(const DecodeBlock &block, int64_t sampling) {
  return {.grid = {Expr(block.blocks * block.clusters), Expr(1), Expr(1)},
          .threads = 32 * (block.warps() + 1),
          .dynamicShared = block.sharedBytes(sampling),
          .cooperative = true,
          .cluster = block.blocks,
          .resident = 1};
}

Launch launchDecodeLayers(const Op &op, const Tile &tile) {
  return launchWith({*DecodeRegion::of(op), tile}, /*sampling=*/0);
}
Launch launchGenerateTokens(const Op &op, const Tile &tile) {
  return launchWith({*DecodeRegion::of(op), tile}, samplingBytes);
}

/// A layer takes the time of its bytes, and that in which phases wait for each other while the ring of weights is full.
double estimateDecodeLayers(const Op &op, const Tile &, const Target &target, const DimBinding &dims) {
  const DecodeRegion region = *DecodeRegion::of(op);
  const KernelTimes::DecodeLayers &times = target.times.decodeLayers;
  const auto layers = static_cast<double>(region.layers.size());
  const auto ofLogits = static_cast<double>(valueAt(region.lastWeight().type.bytes(), dims));
  const double ofLayers = bytesMovedAt(op, dims) - ofLogits;
  const auto furtherRows = static_cast<double>(valueAt(rowsOf(op), dims) - 1), dim = static_cast<double>(region.dim());
  return times.ends + layers * (times.layer + furtherRows * dim * times.row) +
         (ofLayers + ofLogits) / target.memoryRate;
}

/// Of a wide product: copies of 8 columns of the whole depth.
OperandMap wideMap(const Value &weight, const DecodeBlock &block) {
  const int64_t cols = *weight.type.shape[0].asConstant(), bytes = dtypeSize(weight.type.dtype);
  return {&weight,
          {Expr(unitDepth), Expr(cols), Expr(block.wideParts())},
          {Expr(block.dim * bytes), Expr(unitDepth * bytes)},
          {Expr(unitDepth), Expr(unitCols), Expr(block.wideParts())}};
}

/// Of a narrow product: copies of 64 of the depth for a block's columns.
OperandMap narrowMap(const Value &weight, const DecodeBlock &block) {
  const int64_t depth = *weight.type.shape[1].asConstant();
  return {&weight,
          {Expr(depth), Expr(block.dim)},
          {Expr(depth * dtypeSize(weight.type.dtype))},
          {Expr(unitDepth), Expr(block.narrowParts() * unitCols)}};
}

std::vector<OperandMap> decodeMaps(const Op &op, const Tile &tile) {
  const DecodeRegion region = *DecodeRegion::of(op);
  const DecodeBlock block(region, tile);
  const DecodeLayer &first = region.layers.front();
  return {wideMap(*first.qkv->operand(1), block), narrowMap(*first.proj->operand(1), block),
          wideMap(*first.fc->operand(1), block), narrowMap(*first.fcproj->operand(1), block),
          wideMap(region.lastWeight(), block)};
}

/// As DecodePhase of templates/decode/phase_times.cuh.
constexpr StringRef decodePhases[] = {"start", "embed", "keys",   "qkv", "attention", "proj",
                                      "mid",   "fc",    "fcproj", "out", "logits"};

/// Four sets of words, a line of the cache for each cluster of all ranks, row and 8 channels; in front of them the
/// times of phases, four words of 8 bytes, and two for each of 8 rows and each block of all ranks, rounded up to lines.
int64_t mailboxBytes(const Op &op, const Tile &tile) {
  const DecodeBlock block(*DecodeRegion::of(op), tile);
  const int64_t blocks = block.blocks * block.clusters;
  const auto pairs = static_cast<int64_t>(llvm::divideCeil(blocks, 4)); // of words
  const int64_t times = pairs * static_cast<int64_t>(std::size(decodePhases)) * 16;
  return static_cast<int64_t>(llvm::alignTo(times + (4 + 2 * (mostRows + block.ranks * blocks)) * 8, 128)) +
         4 * block.ranks * block.clusters * block.rows * block.dim * 16;
}

} // namespace

std::optional<KernelChoice> generateChoice(const Op &op, const KernelChoice &choice, const Target &target) {
  KernelChoice generate = {&generateTokensFamily, choice.tile};
  const DecodeBlock block(*DecodeRegion::of(op), choice.tile);
  const int64_t stages = mostStages(block, target, samplingBytes);
  if (stages < std::min(block.stages, setting(choice.tile, "in_flight")))
    return std::nullopt;
  generate.tile.insert_or_assign("stages", Attribute(stages));
  return generate;
}

const KernelFamily decodeLayersFamily = {
    .name = "decode_layers",
    .summary = "all layers of decode in one kernel, tensor cores (mma), weights by TMA, sm_90a",
    .header = "decode/layers.cuh",
    .body = "decodeLayers",
    .form = KernelForm::DecodeLayers,
    .waitsItself = true,
    .rowsAtOnce = mostRows,
    .accepts = acceptsDecodeLayers,
    .configurations = decodeConfigurations,
    .isSound = isSoundDecodeLayers,
    .mostRows = [](const Op &, const Tile &tile) { return setting(tile, "rows"); },
    .launch = launchDecodeLayers,
    .estimate = estimateDecodeLayers,
    .maps = decodeMaps,
    .mailboxes = mailboxBytes,
    .phases = decodePhases,
};

/// The same kernel, in a loop over tokens.
static KernelFamily generateTokens() {
  KernelFamily family = decodeLayersFamily;
  family.name = "generate_tokens";
  family.summary = "several tokens, with all layers of decode and sampling, in one kernel, sm_90a";
  family.header = "decode/generate.cuh";
  family.body = "generateTokens";
  family.launch = launchGenerateTokens;
  return family;
}

const KernelFamily generateTokensFamily = generateTokens();

} // namespace kiln
