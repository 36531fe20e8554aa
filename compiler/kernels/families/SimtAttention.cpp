// Fused attention of the simt family: tiles of queries for prefill, one query split over the keys for decode.
#include "kernels/cost/BlockCost.h"
#include "kernels/cost/Problem.h"
#include "kernels/families/Families.h"
#include "ops/Region.h"

namespace kiln {

//===----------------------------------------------------------------------===//
// attention_simt
//===----------------------------------------------------------------------===//

static int64_t simtFlashShared(const Op &op, const Tile &tile) {
  int64_t size = attentionProblem(op).headSize, queries = setting(tile, "tile_queries"),
          keys = setting(tile, "tile_keys");
  return 4 * ((queries + keys) * (size + 4) + keys * size + queries * (keys + 4));
}

/// The conditions that the template asserts; its header documents how lanes share a query.
static bool isSoundSimtFlash(const Op &op, const Tile &tile) {
  int64_t size = attentionProblem(op).headSize, threads = setting(tile, "threads");
  int64_t queries = setting(tile, "tile_queries"), keys = setting(tile, "tile_keys");
  if (threads % 32)
    return false;
  int64_t lanes = size % 16 == 0 && keys % 16 == 0 && queries % (threads / 16) == 0 ? 16 : 8;
  return queries % (threads / lanes) == 0 && keys % lanes == 0;
}

static std::vector<Tile> simtFlashConfigurations(const Op &op, const Target &target, const DimBinding &) {
  int64_t size = attentionProblem(op).headSize;
  std::vector<Tile> tiles;
  for (int64_t queries : {16, 32, 64})
    for (int64_t keys : {16, 32, 64})
      for (int64_t threads : {128, 256}) {
        Tile tile = {{"threads", threads}, {"tile_keys", keys}, {"tile_queries", queries}};
        int64_t lanes = size % 16 == 0 && queries % (threads / 16) == 0 ? 16 : 8;
        int64_t registers = queries / std::max<int64_t>(1, threads / lanes) * (keys + size) / lanes;
        if (isSoundSimtFlash(op, tile) && simtFlashShared(op, tile) <= target.sharedPerBlock && registers <= 96)
          tiles.push_back(std::move(tile));
      }
  return tiles;
}

static Launch launchSimtFlash(const Op &op, const Tile &tile) {
  AttentionProblem problem = attentionProblem(op);
  int64_t shared = simtFlashShared(op, tile);
  bool isStatic = shared <= maxStaticShared;
  return {.grid = {ceilDiv(problem.queries, Expr(setting(tile, "tile_queries"))), problem.heads, problem.batch},
          .threads = setting(tile, "threads"),
          .staticShared = isStatic ? shared : 0,
          .dynamicShared = isStatic ? 0 : shared};
}

static double estimateSimtFlash(const Op &op, const Tile &tile, const Target &target, const DimBinding &dims) {
  AttentionProblem problem = attentionProblem(op);
  double queries = valueAt(problem.queries, dims), size = static_cast<double>(problem.headSize);
  double tileQueries = setting(tile, "tile_queries");
  BlockCost cost;
  cost.blocks = std::ceil(queries / tileQueries) * valueAt(problem.heads * problem.batch, dims);
  cost.threads = setting(tile, "threads");
  // Half of the keys are visible on average; an exponential per score counts as ten operations.
  double keys = visibleKeys(problem, queries) + tileQueries;
  cost.flopsPerBlock = tileQueries * keys * (4 * size + 20);
  double threadQueries = tileQueries * 16 / static_cast<double>(cost.threads);
  double threadCols = (setting(tile, "tile_keys") + size) / 32;
  double fmas = threadQueries * threadCols;
  cost.efficiency = fmas / (fmas + (threadQueries + threadCols) * 0.75 + 2);
  cost.l2BytesPerBlock = keys * 2 * size * static_cast<double>(problem.elementBytes);
  cost.memoryBytes = 4 * valueAt(problem.batch * problem.heads * problem.queries, dims) * size *
                     static_cast<double>(problem.elementBytes);
  cost.sharedBytes = simtFlashShared(op, tile);
  return estimateSeconds(cost, target);
}

const KernelFamily simtFlashFamily = {
    .name = "attention_simt",
    .summary = "flash attention over tiles of queries and keys, online softmax, fp32 arithmetic",
    .header = "attention/simt_flash.cuh",
    .body = "simtFlash",
    .form = KernelForm::Flash,
    .accepts = [](const Op &op, const Target &, const DimBinding &) { return isFusedAttention(op); },
    .configurations = simtFlashConfigurations,
    .isSound = isSoundSimtFlash,
    .launch = launchSimtFlash,
    .estimate = estimateSimtFlash,
};

//===----------------------------------------------------------------------===//
// attention_split_kv_simt
//===----------------------------------------------------------------------===//

static bool acceptsSplitKv(const Op &op, const Target &, const DimBinding &) {
  if (!isFusedAttention(op) || anchor(op)->operand(0)->type.shape[2] != Dim(1))
    return false;
  // The template reads positions before the previous kernel has ended, so no kernel may write them.
  const Value *positions = findInRegion(op, OpKind::causalMask)->operandOrNull(1);
  return positions && !positions->definingOp();
}

static std::vector<Tile> splitKvConfigurations(const Op &, const Target &, const DimBinding &) {
  std::vector<Tile> tiles;
  for (int64_t chunk : {64, 128, 256, 512})
    for (int64_t warps : {2, 4, 8})
      for (int64_t unroll : {1, 2, 4})
        tiles.push_back({{"chunk", chunk}, {"unroll", unroll}, {"warps", warps}});
  return tiles;
}

static Expr splitCount(const Op &op, const Tile &tile) {
  AttentionProblem problem = attentionProblem(op);
  Expr keys = problem.window ? min(problem.keys, Expr(problem.window)) : problem.keys;
  return ceilDiv(keys, Expr(setting(tile, "chunk")));
}

/// The size of SplitPart<headSize>: the outputs and four more floats.
static int64_t splitPartBytes(const AttentionProblem &problem) { return (problem.headSize + 4) * 4; }

static Launch launchSplitKv(const Op &op, const Tile &tile) {
  AttentionProblem problem = attentionProblem(op);
  int64_t warps = setting(tile, "warps");
  return {.grid = {splitCount(op, tile), problem.heads, problem.batch},
          .threads = 32 * warps,
          .staticShared = warps * splitPartBytes(problem) + 16}; // a flag with its alignment
}

static double estimateSplitKv(const Op &op, const Tile &tile, const Target &target, const DimBinding &dims) {
  AttentionProblem problem = attentionProblem(op);
  double size = static_cast<double>(problem.headSize), bytes = static_cast<double>(problem.elementBytes);
  double heads = valueAt(problem.heads * problem.batch, dims);
  // A cache is half full on average.
  double keys = visibleKeys(problem, static_cast<double>(valueAt(problem.keys, dims))), chunk = setting(tile, "chunk");
  BlockCost cost;
  cost.blocks = std::ceil(keys / chunk) * heads;
  cost.threads = 32 * setting(tile, "warps");
  double keysPerRound = static_cast<double>(cost.threads) * 16 / (size * bytes) * setting(tile, "unroll");
  // A round costs its latency, however few bytes it loads; a block with many rounds waits for each.
  double rounds = std::ceil(std::min(chunk, keys) / keysPerRound);
  cost.memoryBytes = 2 * keys * heads * size * bytes;
  cost.flopsPerBlock = 4 * std::min(chunk, keys) * size;
  cost.efficiency = 0.3;
  double combine = target.times.splitKv.combine * std::ceil(keys / chunk) / 4;
  return estimateSeconds(cost, target) + rounds * target.times.splitKv.round + combine;
}

/// The workspace: a part for each (batch, head, split).
static Expr splitKvWorkspace(const Op &op, const Tile &tile) {
  AttentionProblem problem = attentionProblem(op);
  return problem.batch * problem.heads * splitCount(op, tile) * Expr(splitPartBytes(problem));
}

const KernelFamily simtSplitKvFamily = {
    .name = "attention_split_kv_simt",
    .summary = "attention of one query a sequence, split over the cached keys, fp32 arithmetic",
    .header = "attention/simt_split_kv.cuh",
    .body = "simtSplitKv",
    .form = KernelForm::SplitKv,
    .waitsItself = true,
    .accepts = acceptsSplitKv,
    .configurations = splitKvConfigurations,
    .launch = launchSplitKv,
    .estimate = estimateSplitKv,
    .workspace = splitKvWorkspace,
    .counters =
        [](const Op &op, const Tile &) {
          AttentionProblem problem = attentionProblem(op);
          return problem.batch * problem.heads;
        },
};

} // namespace kiln
