// Fused attention of one query a sequence, or a few that follow each other, for decode and verification: the cached
// keys are split over blocks, which exchange their parts through memory or within a cluster.
#include "kernels/cost/Problem.h"
#include "kernels/families/Families.h"
#include "ops/Region.h"
#include "support/model/TargetName.h"

#include <cmath>

namespace kiln {

/// The most parts of a head.
constexpr int64_t mostParts = 32;
constexpr int64_t registersOfMultiprocessor = 65536;

namespace {

/// The settings of a tile.
struct SplitKvBlock {
  int64_t splits, warps, stages;

  explicit SplitKvBlock(const Tile &tile)
      : splits(setting(tile, "splits")), warps(setting(tile, "warps")), stages(setting(tile, "stages")) {}
};

/// What a warp does in a round, as SplitKvShape of the template.
struct SplitKvRound {
  int64_t keys = 0;
  int64_t bytes = 0;     ///< of keys and values
  int64_t registers = 0; ///< of a lane for query and output

  explicit SplitKvRound(const AttentionProblem &problem) {
    int64_t vectors = problem.headSize * problem.elementBytes / 16, lanes = widestVector(vectors, 32);
    int64_t slots = vectors / lanes, unroll = std::max<int64_t>(1, 4 / slots);
    keys = 32 / lanes * unroll;
    bytes = 2 * keys * problem.headSize * problem.elementBytes;
    registers = 2 * problem.headSize / lanes;
  }
};

} // namespace

static bool acceptsSplitKv(const Op &op, const Target &, const DimBinding &) {
  if (!isFusedAttention(op) || !hasFewQueries(op))
    return false;
  // The template reads positions before the previous kernel has ended, so no kernel may write them.
  const Value *positions = findInRegion(op, OpKind::causalMask)->operandOrNull(1);
  return positions && !positions->definingOp();
}

static bool acceptsClusterSplitKv(const Op &op, const Target &target, const DimBinding &upper) {
  return target.hasClusters && acceptsSplitKv(op, target, upper);
}

/// More stages than this do not fit into registers.
constexpr int64_t mostStages = 8;

static bool isSoundSplitKv(const Op &, const Tile &tile) { return SplitKvBlock(tile).stages <= mostStages; }

static bool isSoundClusterSplitKv(const Op &op, const Tile &tile) {
  return isSoundSplitKv(op, tile) && SplitKvBlock(tile).splits <= maxClusterBlocks;
}

/// Registers of a thread, about as the compiler allots them.
static int64_t registersOf(const AttentionProblem &problem, const SplitKvBlock &block) {
  SplitKvRound round(problem);
  return 32 + round.registers + block.stages * round.bytes / 128;
}

/// All of them give a row the same bits. A block takes up to half of the registers, so that it starts beside blocks of
/// the kernel before. `mostAlone`: registers of a head's only block.
static std::vector<Tile> splitKvTiles(const Op &op, int64_t mostAlone) {
  AttentionProblem problem = attentionProblem(op);
  std::vector<Tile> tiles;
  for (int64_t splits : {1, 2, 4, 8})
    for (int64_t stages : {1, 2})
      for (int64_t warps : {4, 8, 16}) {
        Tile tile = {{"splits", splits}, {"stages", stages}, {"warps", warps}};
        bool isFirst = tiles.empty();
        int64_t most = splits == 1 ? mostAlone : registersOfMultiprocessor / 2;
        bool fits = splits * warps <= mostParts && registersOf(problem, SplitKvBlock(tile)) * 32 * warps <= most;
        if (isFirst || fits)
          tiles.push_back(std::move(tile));
      }
  return tiles;
}

static std::vector<Tile> splitKvConfigurations(const Op &op, const Target &, const DimBinding &) {
  return splitKvTiles(op, registersOfMultiprocessor / 2);
}

/// If each head finds a multiprocessor, its block takes all registers that it can use: 8 rows of 124M at position 960
/// take 219 instead of 244 us a step with 16 warps instead of 8, and 153 instead of 152 at position 64. With more heads
/// than multiprocessors (1558M), blocks of 16 warps run one after the other: 1252 instead of 1160 us.
static std::vector<Tile> clusterSplitKvConfigurations(const Op &op, const Target &target, const DimBinding &upper) {
  AttentionProblem problem = attentionProblem(op);
  bool isAlone = valueAt(problem.heads * problem.batch * problem.queries, upper) <= target.multiprocessors;
  return splitKvTiles(op, isAlone ? registersOfMultiprocessor : registersOfMultiprocessor / 2);
}

/// The size of SplitPart<headSize>: the outputs and four more floats.
static int64_t splitPartBytes(const AttentionProblem &problem) { return (problem.headSize + 4) * 4; }

static Launch launchSplitKv(const Op &op, const Tile &tile) {
  AttentionProblem problem = attentionProblem(op);
  SplitKvBlock block(tile);
  return {.grid = {Expr(block.splits), problem.heads, problem.batch * problem.queries},
          .threads = 32 * block.warps,
          .staticShared = mostParts * splitPartBytes(problem) + 16}; // a flag or barrier, with its alignment
}

static Launch launchClusterSplitKv(const Op &op, const Tile &tile) {
  Launch launch = launchSplitKv(op, tile);
  launch.cluster = SplitKvBlock(tile).splits;
  return launch;
}

/// Modelled seconds with so many keys in each of `heads` heads; `exchange`: seconds that an exchange of parts takes.
static double secondsAt(double keys, double heads, const AttentionProblem &problem, const SplitKvBlock &block,
                        const Target &target, double exchange) {
  const KernelTimes::SplitKv &times = target.times.splitKv;
  SplitKvRound round(problem);
  auto warps = static_cast<double>(block.warps), stages = static_cast<double>(block.stages);
  double rounds = std::ceil(keys / static_cast<double>(round.keys));
  double parts = std::min(rounds, static_cast<double>(mostParts));
  double splits = std::min(static_cast<double>(block.splits), std::ceil(parts / warps)), blocks = heads * splits;
  double turns = std::ceil(rounds / std::min(parts, splits * warps)); // rounds of a warp
  int64_t resident = std::min(registersOfMultiprocessor / (registersOf(problem, block) * 32 * block.warps),
                              target.threadsPerMultiprocessor / (32 * block.warps));
  double atOnce = static_cast<double>(std::max<int64_t>(1, resident)) * target.multiprocessors;
  double underWay =
      std::min(blocks, atOnce) * std::min(warps, parts) * std::min(stages, turns) * static_cast<double>(round.bytes);
  double bytes = heads * rounds * static_cast<double>(round.bytes);
  // Little's law, and the rate of the memory, which answers later near it.
  double reading = std::hypot(bytes / underWay * target.times.memoryLatency, bytes / target.memoryRate);
  reading = std::max(reading, bytes / (std::min<double>(blocks, target.multiprocessors) * times.loadRate));
  // The position is loaded first.
  double ofWarp = (1 + std::ceil(turns / stages)) * target.times.memoryLatency + turns * times.round;
  // A block begins when another one ends, so that there are no whole turns of them.
  double inTurns = std::max(1.0, blocks / atOnce) * ofWarp;
  double starts = heads * static_cast<double>(block.splits) * times.blockStart;
  return target.launchSeconds + std::max({reading + times.tail * ofWarp, inTurns, starts}) +
         (splits > 1 ? exchange : 0);
}

/// The geometric mean over few keys and a full cache: tiles that suit one position only lose, and early positions count
/// like late ones, which take longer.
static double secondsOf(const Op &op, const Tile &tile, const Target &target, const DimBinding &dims, double exchange) {
  AttentionProblem problem = attentionProblem(op);
  auto heads = static_cast<double>(valueAt(problem.heads * problem.batch * problem.queries, dims));
  double most = 2 * visibleKeys(problem, static_cast<double>(valueAt(problem.keys, dims)));
  double product = 1;
  for (double share : {1.0 / 16, 1.0 / 2, 1.0})
    product *= secondsAt(most * share, heads, problem, SplitKvBlock(tile), target, exchange);
  return std::cbrt(product);
}

static double estimateSplitKv(const Op &op, const Tile &tile, const Target &target, const DimBinding &dims) {
  return secondsOf(op, tile, target, dims, target.times.splitKv.exchange);
}

static double estimateClusterSplitKv(const Op &op, const Tile &tile, const Target &target, const DimBinding &dims) {
  return secondsOf(op, tile, target, dims, target.times.splitKv.clusterExchange);
}

/// The workspace: the parts of each (batch, head).
static Expr splitKvWorkspace(const Op &op, const Tile &) {
  AttentionProblem problem = attentionProblem(op);
  return problem.batch * problem.queries * problem.heads * Expr(mostParts * splitPartBytes(problem));
}

const KernelFamily simtSplitKvFamily = {
    .name = "attention_split_kv_simt",
    .summary = "attention of few queries a sequence, split over the cached keys, fp32 arithmetic",
    .header = "attention/simt_split_kv.cuh",
    .body = "simtSplitKv",
    .form = KernelForm::SplitKv,
    .waitsItself = true,
    .accepts = acceptsSplitKv,
    .configurations = splitKvConfigurations,
    .isSound = isSoundSplitKv,
    .launch = launchSplitKv,
    .estimate = estimateSplitKv,
    .workspace = splitKvWorkspace,
    .counters =
        [](const Op &op, const Tile &) {
          AttentionProblem problem = attentionProblem(op);
          return problem.batch * problem.queries * problem.heads;
        },
};

const KernelFamily clusterSplitKvFamily = {
    .name = "attention_split_kv_cluster",
    .summary = "the same, the blocks of a head in a cluster",
    .header = "attention/cluster_split_kv.cuh",
    .body = "clusterSplitKv",
    .form = KernelForm::SplitKv,
    .waitsItself = true,
    .accepts = acceptsClusterSplitKv,
    .configurations = clusterSplitKvConfigurations,
    .isSound = isSoundClusterSplitKv,
    .launch = launchClusterSplitKv,
    .estimate = estimateClusterSplitKv,
};

} // namespace kiln
