// Fused attention of the wgmma family: tiles of queries for prefill, in the tensor cores of Hopper.
#include "kernels/cost/Problem.h"
#include "kernels/cost/Work.h"
#include "kernels/families/Families.h"

#include <cmath>

namespace kiln {

static bool acceptsWgmmaFlash(const Op &op, const Target &target, const DimBinding &) {
  if (!target.hasWgmma || !isTensorAttention(op))
    return false;
  int64_t size = attentionProblem(op).headSize;
  return size % 16 == 0 && size <= 128;
}

/// Shared memory, as in the template: rows of 128 bytes, each 64 elements of a head.
static int64_t wgmmaFlashShared(const Op &op, const Tile &tile) {
  int64_t slabs = llvm::divideCeil(attentionProblem(op).headSize, 64);
  return 128 * slabs * (setting(tile, "tile_queries") + 2 * setting(tile, "stages") * setting(tile, "tile_keys"));
}

/// Registers of a thread: scores, rounded weights, output, queries and overhead; they are allocated in units of eight.
static int64_t wgmmaFlashRegisters(const Op &op, const Tile &tile) {
  int64_t size = attentionProblem(op).headSize, keys = setting(tile, "tile_keys");
  return llvm::alignTo(keys / 2 + keys / 4 + size / 2 + size / 4 + 32, 8);
}

/// The blocks that a multiprocessor can hold, given their registers.
static int64_t residentByRegisters(const Op &op, const Tile &tile) {
  return std::max<int64_t>(1, 65536 / (2 * setting(tile, "tile_queries") * wgmmaFlashRegisters(op, tile)));
}

static bool isSoundWgmmaFlash(const Op &op, const Tile &tile) {
  int64_t queries = setting(tile, "tile_queries"), keys = setting(tile, "tile_keys");
  return queries > 0 && queries % 64 == 0 && (keys == 64 || keys == 128) && setting(tile, "stages") >= 2 &&
         wgmmaFlashRegisters(op, tile) * 2 * queries <= 65536;
}

static std::vector<Tile> wgmmaFlashConfigurations(const Op &op, const Target &target, const DimBinding &) {
  std::vector<Tile> tiles;
  for (int64_t queries : {128, 64})
    for (int64_t keys : {64, 128})
      for (int64_t stages : {2, 3}) {
        Tile tile = {{"stages", stages}, {"tile_keys", keys}, {"tile_queries", queries}};
        if (isSoundWgmmaFlash(op, tile) && wgmmaFlashShared(op, tile) <= target.sharedPerBlock)
          tiles.push_back(std::move(tile));
      }
  return tiles;
}

/// Keys are taken a tile at a time; within one, sums run in steps of 16 keys.
static AttributeMap orderOfWgmmaFlash(const Op &, const Tile &tile) { return {{"keys", setting(tile, "tile_keys")}}; }

static Launch launchWgmmaFlash(const Op &op, const Tile &tile) {
  AttentionProblem problem = attentionProblem(op);
  return {.grid = {problem.heads, problem.batch, ceilDiv(problem.queries, Expr(setting(tile, "tile_queries")))},
          .threads = 2 * setting(tile, "tile_queries"),
          .dynamicShared = wgmmaFlashShared(op, tile),
          .resident = residentByRegisters(op, tile)};
}

static double estimateWgmmaFlash(const Op &op, const Tile &tile, const Target &target, const DimBinding &dims) {
  AttentionProblem problem = attentionProblem(op);
  double queries = valueAt(problem.queries, dims), size = static_cast<double>(problem.headSize);
  double tileQueries = setting(tile, "tile_queries");
  double heads = valueAt(problem.heads * problem.batch, dims), blocks = std::ceil(queries / tileQueries) * heads;
  double byShared =
      std::floor(target.sharedPerMultiprocessor / (static_cast<double>(wgmmaFlashShared(op, tile)) + 1024));
  double resident = std::max(1.0, std::min(static_cast<double>(residentByRegisters(op, tile)), byShared));

  // Cycles for a step of a block. The multiprocessor is busy with the products, and about as long with the softmax
  // beside them; a step takes longer alone and beside other blocks.
  const KernelTimes::WgmmaFlash &times = target.times.wgmmaFlash;
  double clock = target.times.clock;
  double keys = setting(tile, "tile_keys"), flopsPerCycle = target.tensorRate / target.multiprocessors / clock;
  double multiply = tileQueries * keys * 4 * size / flopsPerCycle, alone = times.gap + times.alone * multiply;
  // A block sees half of the keys on average, plus its whole last tile; the block with the most keys sees all.
  double visible = visibleKeys(problem, queries), most = std::min(queries, 2 * visible + tileQueries);
  double steps = (visible + tileQueries / 2 + keys / 2) / keys, mostSteps = std::ceil(most / keys);
  double perMultiprocessor = blocks / target.multiprocessors;
  double beside = times.beside * multiply * (std::min(resident, std::ceil(perMultiprocessor)) - 1);
  double cycles =
      std::max(perMultiprocessor * steps * (times.busy * multiply + alone / resident), mostSteps * (alone + beside));
  double rows = tileQueries + 2 * keys; // loaded before the first step
  double l2 = blocks * steps * keys * 2 * size * static_cast<double>(problem.elementBytes) / target.l2Rate;
  double memory = bytesMovedAt(op, dims) / target.memoryRate;
  return target.launchSeconds + times.ends + rows * size * times.fill + std::max({cycles / clock, l2, memory});
}

const KernelFamily wgmmaFlashFamily = {
    .name = "attention_wgmma",
    .summary = "flash attention in the tensor cores of Hopper by wgmma, softmax while they multiply",
    .header = "attention/wgmma_flash.cuh",
    .body = "wgmmaFlash",
    .form = KernelForm::TensorFlash,
    .accepts = acceptsWgmmaFlash,
    .configurations = wgmmaFlashConfigurations,
    .isSound = isSoundWgmmaFlash,
    .order = orderOfWgmmaFlash,
    .launch = launchWgmmaFlash,
    .estimate = estimateWgmmaFlash,
};

} // namespace kiln
