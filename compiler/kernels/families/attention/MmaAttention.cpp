// Fused attention of the mma family: tiles of queries for prefill, in tensor cores.
#include "kernels/cost/Problem.h"
#include "kernels/cost/Work.h"
#include "kernels/families/Families.h"

#include <cmath>

namespace kiln {

static bool acceptsMmaFlash(const Op &op, const Target &target, const DimBinding &) {
  return target.computeCapability() >= 80 && isTensorAttention(op);
}

/// Shared memory, as in the template: rows of 128 bytes, each 64 elements of a head.
static int64_t mmaFlashShared(const Op &op, const Tile &tile) {
  int64_t slabs = llvm::divideCeil(attentionProblem(op).headSize, 64);
  return 128 * slabs * (setting(tile, "tile_queries") + 2 * setting(tile, "stages") * setting(tile, "tile_keys"));
}

/// Registers of a thread: scores, output, queries if they are kept, and overhead per row of queries.
static double mmaFlashRegisters(const Op &op, const Tile &tile) {
  double size = static_cast<double>(attentionProblem(op).headSize);
  double rows = static_cast<double>(setting(tile, "tile_queries")) / static_cast<double>(setting(tile, "warps"));
  double queries = rows * size <= 2048 ? rows * size / 64 : 8;
  return rows * (static_cast<double>(setting(tile, "tile_keys")) + size) / 32 + queries + 60;
}

static std::vector<Tile> mmaFlashConfigurations(const Op &op, const Target &target, const DimBinding &) {
  struct Shape {
    int64_t queries, keys, warps, stages;
  };
  static constexpr Shape shapes[] = {{128, 64, 4, 2}, {64, 64, 4, 2}, {128, 64, 8, 2}, {64, 32, 4, 2},
                                     {32, 64, 2, 2},  {32, 32, 2, 2}, {16, 32, 1, 2}};
  std::vector<Tile> tiles;
  for (const Shape &shape : shapes) {
    Tile tile = {
        {"stages", shape.stages}, {"tile_keys", shape.keys}, {"tile_queries", shape.queries}, {"warps", shape.warps}};
    if (mmaFlashShared(op, tile) <= target.sharedPerBlock && mmaFlashRegisters(op, tile) <= 255)
      tiles.push_back(std::move(tile));
  }
  return tiles;
}

/// The conditions that the template asserts.
static bool isSoundMmaFlash(const Op &, const Tile &tile) {
  const int64_t queries = setting(tile, "tile_queries"), warps = setting(tile, "warps");
  return (queries == 16 * warps || queries == 32 * warps) && setting(tile, "tile_keys") % 16 == 0 &&
         setting(tile, "stages") >= 2;
}

/// Keys are taken a tile at a time; within one, sums run in steps of 16 keys.
static AttributeMap orderOfMmaFlash(const Op &, const Tile &tile) {
  return {{"by", Attribute::ident("mma")}, {"keys", setting(tile, "tile_keys")}};
}

static Launch launchMmaFlash(const Op &op, const Tile &tile) {
  AttentionProblem problem = attentionProblem(op);
  return {.grid = {problem.heads, problem.batch, ceilDiv(problem.queries, Expr(setting(tile, "tile_queries")))},
          .threads = 32 * setting(tile, "warps"),
          .dynamicShared = mmaFlashShared(op, tile)};
}

static double estimateMmaFlash(const Op &op, const Tile &tile, const Target &target, const DimBinding &dims) {
  AttentionProblem problem = attentionProblem(op);
  double queries = valueAt(problem.queries, dims), size = static_cast<double>(problem.headSize);
  double tileQueries = setting(tile, "tile_queries"), warps = setting(tile, "warps"), rows = tileQueries / warps;
  double heads = valueAt(problem.heads * problem.batch, dims), blocks = std::ceil(queries / tileQueries) * heads;
  double byRegisters = std::floor(65536 / (32 * warps * std::min(255.0, mmaFlashRegisters(op, tile))));
  double byShared = std::floor(target.sharedPerMultiprocessor / (static_cast<double>(mmaFlashShared(op, tile)) + 1024));
  double resident = std::max(1.0, std::min(byRegisters, byShared));

  // Cycles for a warp's part of a tile of keys: two products, about six instructions per score with its exponential,
  // and the gap between steps if no other warp fills it.
  double clock = target.times.clock, gap = target.times.mmaFlash.gap;
  double keys = setting(tile, "tile_keys"), flopsPerCycle = target.mmaRate / target.multiprocessors / clock;
  double multiply =
      rows * keys * 4 * size / flopsPerCycle; // at the rate of a multiprocessor, which is four times a warp's
  double read = keys * 4 * size / 128, scores = rows * keys / 32 * 6;
  double alone = (4 * multiply + scores) * std::max(1.0, warps / 4) + gap;
  // A block sees half of the keys on average, plus its whole last tile; the block with the most keys sees all.
  double visible = visibleKeys(problem, queries), most = std::min(queries, 2 * visible + tileQueries);
  double steps = (visible + tileQueries / 2 + keys / 2) / keys, mostSteps = std::ceil(most / keys);
  double perMultiprocessor = blocks / target.multiprocessors;
  double cycles = std::max({perMultiprocessor * steps * warps * (std::max(multiply, read) + scores / 8),
                            std::max(1.0, perMultiprocessor / resident) * steps * alone, mostSteps * alone});
  double l2 = blocks * steps * keys * 2 * size * static_cast<double>(problem.elementBytes) / target.l2Rate;
  double seconds = std::max(cycles / clock, l2);
  double memory = bytesMovedAt(op, dims) / target.memoryRate;
  return target.launchSeconds + target.times.mmaFlash.ends + std::max(seconds, memory);
}

const KernelFamily mmaFlashFamily = {
    .name = "attention_mma",
    .summary = "flash attention in tensor cores by mma.sync, scores and weights in registers",
    .header = "attention/mma_flash.cuh",
    .body = "mmaFlash",
    .form = KernelForm::TensorFlash,
    .accepts = acceptsMmaFlash,
    .configurations = mmaFlashConfigurations,
    .isSound = isSoundMmaFlash,
    .order = orderOfMmaFlash,
    .launch = launchMmaFlash,
    .estimate = estimateMmaFlash,
};

} // namespace kiln
