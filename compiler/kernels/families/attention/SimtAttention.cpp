// Fused attention of the simt family: tiles of queries, for prefill.
#include "kernels/cost/BlockCost.h"
#include "kernels/cost/Problem.h"
#include "kernels/families/Families.h"
#include "ops/Region.h"

namespace kiln {

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

} // namespace kiln
