// Fused attention of the wgmma family: tiles of queries for prefill, in the tensor cores of Hopper.
#include "kernels/cost/Problem.h"
#include "kernels/cost/Work.h"
#include "kernels/families/Families.h"
#include "kernels/families/matmul/WgmmaOperands.h"
#include "ops/Region.h"

#include <cmath>

namespace kiln {

/// Queries of a warpgroup.
constexpr int64_t warpgroupQueries = 64;

static bool acceptsWgmmaFlash(const Op &op, const Target &target, const DimBinding &) {
  if (!target.hasWgmma || !isTensorAttention(op))
    return false;
  int64_t size = attentionProblem(op).headSize;
  return size % 16 == 0 && size <= 128;
}

/// Shared memory, as in the template: rows of 128 bytes, each 64 elements of a head; sums of a range; barriers. A block
/// may ask for more.
static int64_t wgmmaFlashShared(const Op &op, const Tile &tile) {
  int64_t size = attentionProblem(op).headSize, slabs = llvm::divideCeil(size, 64),
          queries = setting(tile, "tile_queries");
  int64_t stages = setting(tile, "stages"), ways = setting(tile, "ways");
  int64_t rows = queries * ways + 2 * stages * setting(tile, "tile_keys");
  int64_t kept = setting(tile, "ranges") > 1 ? queries * (4 * size + 32) + 8 : 0;
  auto bytes = static_cast<int64_t>(llvm::alignTo(128 * slabs * rows + kept + 8 * (4 * stages + ways + 1), 1024));
  return std::max(setting(tile, "shared"), bytes);
}

static int64_t threadsOf(const Tile &tile) {
  return 2 * setting(tile, "tile_queries") + 32 * (setting(tile, "roles") - 1);
}

/// As many as a thread can have, in units of eight.
constexpr int64_t maxRegisters = 248;

/// Registers of a thread: scores, weights and rounded weights, output, and overhead; they are allocated in units of
/// eight.
static int64_t wgmmaFlashRegisters(const Op &op, const Tile &tile) {
  int64_t size = attentionProblem(op).headSize, keys = setting(tile, "tile_keys");
  return llvm::alignTo(keys + keys / 4 + size / 2 + 16, 8);
}

/// The blocks that a multiprocessor can hold, given their registers.
static int64_t residentByRegisters(const Op &op, const Tile &tile) {
  return std::max<int64_t>(1, 65536 / (threadsOf(tile) * wgmmaFlashRegisters(op, tile)));
}

/// Whether queries are also keys or values. A tensor has one map, and so one number of rows that are copied at a time.
static bool sharesQueries(const Op &op) {
  const Value *queries = anchor(op)->operand(0);
  return queries == anchor(op)->operand(1) || queries == findInRegion(op, OpKind::pv)->operand(1);
}

/// Ranges have keys and begin at the first key; a block adds all of them, or two blocks have two.
static bool hasSoundRanges(const Op &op, const Tile &tile) {
  int64_t ranges = setting(tile, "ranges"), ways = setting(tile, "ways");
  if (ranges == 1)
    return ways == 1;
  AttentionProblem problem = attentionProblem(op);
  return (ways == 1 || (ways == 2 && ranges == 2 && setting(tile, "tile_queries") == warpgroupQueries)) &&
         problem.window == 0 && (ranges - 1) * keysOfRange(op, ranges) < valueAt(problem.keys, upperBounds(op));
}

static bool isSoundWgmmaFlash(const Op &op, const Tile &tile) {
  int64_t queries = setting(tile, "tile_queries"), keys = setting(tile, "tile_keys");
  if (setting(tile, "roles") > 2 || !hasSoundRanges(op, tile))
    return false;
  if (sharesQueries(op) && queries != keys)
    return false;
  return queries > 0 && queries % warpgroupQueries == 0 && (keys == 64 || keys == 128) &&
         setting(tile, "stages") >= 2 && threadsOf(tile) <= 1024 && wgmmaFlashRegisters(op, tile) <= maxRegisters &&
         wgmmaFlashRegisters(op, tile) * threadsOf(tile) <= 65536;
}

/// What a block asks for so that only as many share a multiprocessor as must. Blocks start while those of the product
/// in front end one by one, each of which has a multiprocessor of its own: the first ones to become free would take in
/// all the blocks that have room there, and others would stay idle (one prompt of 1024 tokens: 15 % longer).
static int64_t sharedForFew(const Op &op, const Target &target, int64_t queries, int64_t ways,
                            const DimBinding &upper) {
  AttentionProblem problem = attentionProblem(op);
  Expr blocks = problem.heads * problem.batch * ceilDiv(problem.queries, Expr(queries));
  auto multiprocessors = static_cast<int64_t>(target.multiprocessors);
  // Those with the most keys come first, so that two rounds are balanced. Of two ways, all have as many.
  const int64_t rounds = ways == 1 ? 2 : 1;
  int64_t resident = std::max<int64_t>(1, llvm::divideCeil(valueAt(blocks, upper), rounds * multiprocessors));
  return target.sharedOfAtMost(resident);
}

static std::vector<Tile> wgmmaFlashConfigurations(const Op &op, const Target &target, const DimBinding &upper) {
  std::vector<Tile> tiles;
  constexpr std::pair<int64_t, int64_t> rangesAndWays[] = {{1, 1}, {2, 1}, {2, 2}};
  for (int64_t queries : {128, 64})
    for (int64_t keys : {64, 128})
      for (auto [ranges, ways] : rangesAndWays) {
        const int64_t few = sharedForFew(op, target, queries, ways, upper);
        for (int64_t stages : {3, 4, 2}) // two do not hide the latency of L2, but need less room
          for (int64_t roles : {1, 2}) {
            Tile tile = {{"ranges", ranges},  {"roles", roles},          {"shared", 1}, {"stages", stages},
                         {"tile_keys", keys}, {"tile_queries", queries}, {"ways", ways}};
            tile.insert_or_assign("shared", std::max(few, wgmmaFlashShared(op, tile)));
            if (isSoundWgmmaFlash(op, tile) && wgmmaFlashShared(op, tile) <= target.sharedPerBlock)
              tiles.push_back(std::move(tile));
          }
      }
  return tiles;
}

/// Steps of so many keys add up in order, in each range.
static AttributeMap orderOfWgmmaFlash(const Op &, const Tile &tile) {
  return {{"keys", setting(tile, "tile_keys")}, {"ranges", setting(tile, "ranges")}};
}

static Launch launchWgmmaFlash(const Op &op, const Tile &tile) {
  AttentionProblem problem = attentionProblem(op);
  const int64_t ways = setting(tile, "ways"), queries = setting(tile, "tile_queries");
  return {.grid = {problem.heads * Expr(ways), problem.batch, ceilDiv(problem.queries, Expr(queries * ways))},
          .threads = threadsOf(tile),
          .dynamicShared = wgmmaFlashShared(op, tile),
          .cluster = ways,
          .resident = residentByRegisters(op, tile)};
}

/// The map of queries, keys or values, of all heads, for copies of so many rows.
static OperandMap mapOfHeads(const Value &operand, int64_t boxRows) {
  ArrayRef<Dim> shape = operand.type.shape; // [B, NH, tokens, HS]
  const int64_t bytes = dtypeSize(operand.type.dtype), size = *operand.type.lastDim().asConstant();
  const Expr tokens = shape[2].expr();
  return {&operand,
          {Expr(size), tokens, shape[0].expr() * shape[1].expr()},
          {Expr(size * bytes), tokens * Expr(size * bytes)},
          {Expr(stepBytes / bytes), Expr(boxRows), Expr(1)}};
}

static std::vector<OperandMap> mapsOfWgmmaFlash(const Op &op, const Tile &tile) {
  const Op &qk = *anchor(op), &pv = *findInRegion(op, OpKind::pv);
  const int64_t keys = setting(tile, "tile_keys");
  std::vector<OperandMap> maps = {mapOfHeads(*qk.operand(0), setting(tile, "tile_queries"))};
  for (const Value *operand : {qk.operand(1), pv.operand(1)})
    if (llvm::none_of(maps, [&](const OperandMap &map) { return map.operand == operand; }))
      maps.push_back(mapOfHeads(*operand, keys));
  return maps;
}

static double estimateWgmmaFlash(const Op &op, const Tile &tile, const Target &target, const DimBinding &dims) {
  AttentionProblem problem = attentionProblem(op);
  double queries = valueAt(problem.queries, dims), size = static_cast<double>(problem.headSize);
  double tileQueries = setting(tile, "tile_queries"), ways = setting(tile, "ways");
  double heads = valueAt(problem.heads * problem.batch, dims);
  double blocks = std::ceil(std::ceil(queries / tileQueries) / ways) * ways * heads;
  double byShared =
      std::floor(target.sharedPerMultiprocessor / (static_cast<double>(wgmmaFlashShared(op, tile)) + 1024));
  double resident = std::max(1.0, std::min(static_cast<double>(residentByRegisters(op, tile)), byShared));

  // Cycles for a step of a warpgroup. The multiprocessor is busy with the products, and about as long with the softmax
  // beside them; a step takes longer alone and beside other warpgroups.
  const KernelTimes::WgmmaFlash &times = target.times.wgmmaFlash;
  double clock = target.times.clock;
  auto keys = static_cast<double>(setting(tile, "tile_keys")),
       range = static_cast<double>(keysOfRange(op, setting(tile, "ranges")));
  double flopsPerCycle = target.tensorRate / target.multiprocessors / clock;
  double multiply = warpgroupQueries * keys * 4 * size / flopsPerCycle, alone = times.gap + times.alone * multiply;
  if (setting(tile, "roles") == 1)
    alone += times.copies;
  if (setting(tile, "stages") == 2)
    alone += times.ringOf2;
  // A tile of queries sees half of the keys on average, plus its own last tile of them; the one with the most sees all.
  // Two ways have a tile from each end: all blocks have as many steps, of which the first way has those of a range.
  double visible = visibleKeys(problem, queries), most = std::min(queries, 2 * visible + tileQueries);
  double steps = (visible + tileQueries / 2 + keys / 2) / keys, mostSteps = std::ceil(most / keys);
  double share = range > 0 && range < most ? (most - range) / most : 0, more = share * times.range;
  if (ways > 1) {
    mostSteps = std::ceil(std::max(std::min(most, range), most + tileQueries - range) / keys);
    more = times.handOver;
  }
  double perMultiprocessor = blocks / target.multiprocessors, warpgroups = tileQueries / warpgroupQueries;
  double others = std::min(resident, std::ceil(perMultiprocessor)) * warpgroups - 1;
  double cycles =
      std::max(perMultiprocessor * (steps * (warpgroups * times.busy * multiply + alone / resident) + more / resident),
               mostSteps * (alone + others * times.beside * multiply) + more);
  double rows = tileQueries + 2 * setting(tile, "tile_keys"); // loaded before the first step
  double loads =
      perMultiprocessor * steps * keys * 2 * size * static_cast<double>(problem.elementBytes) / times.loadRate;
  double memory = bytesMovedAt(op, dims) / target.memoryRate;
  return target.launchSeconds + times.ends + rows * size * times.fill + std::max({cycles / clock, loads, memory});
}

const KernelFamily wgmmaFlashFamily = {
    .name = "attention_wgmma",
    .summary = "flash attention in the tensor cores of Hopper by wgmma, softmax while they multiply",
    .header = "attention/wgmma_flash.cuh",
    .body = "wgmmaFlash",
    .form = KernelForm::TensorFlash,
    .waitsItself = true,
    .accepts = acceptsWgmmaFlash,
    .configurations = wgmmaFlashConfigurations,
    .isSound = isSoundWgmmaFlash,
    .order = orderOfWgmmaFlash,
    .launch = launchWgmmaFlash,
    .estimate = estimateWgmmaFlash,
    .maps = mapsOfWgmmaFlash,
};

} // namespace kiln
