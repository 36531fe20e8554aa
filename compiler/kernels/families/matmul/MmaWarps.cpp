// Matrix products of up to 16 rows in tensor cores, each warp with operands of its own: decode of one sequence or a
// few.
#include "kernels/cost/Occupancy.h"
#include "kernels/cost/Problem.h"
#include "kernels/families/Families.h"
#include "kernels/families/Inbox.h"
#include "kernels/families/matmul/DepthCut.h"
#include "kernels/families/matmul/WgmmaOperands.h"
#include "kernels/families/matmul/WgmmaRows.h"
#include "ops/Region.h"

#include <cmath>

namespace kiln {

/// The rows of an instruction, and so the most of a block.
constexpr int64_t mostRowsOfBlock = 16;

namespace {

/// The settings of a tile, and what follows from them.
struct WarpsBlock {
  int64_t rows, tilesN, warpsN, depthWarps, unroll, buffers, turns;
  DepthCut cut;

  explicit WarpsBlock(const Tile &tile)
      : rows(setting(tile, "rows")), tilesN(setting(tile, "tiles_n")), warpsN(setting(tile, "warps_n")),
        depthWarps(setting(tile, "depth_warps")), unroll(setting(tile, "unroll")), buffers(setting(tile, "buffers")),
        turns(setting(tile, "turns")), cut{setting(tile, "ranges"), setting(tile, "chains")} {}

  int64_t cols() const { return 8 * tilesN * warpsN; }
  /// Of a product with so many columns.
  int64_t blocks(int64_t cols) const { return static_cast<int64_t>(llvm::divideCeil(cols, this->cols() * turns)); }
  /// Whether it can exchange sums with other ranks: all blocks run at once, each thread has one vector of 2 columns.
  bool canExchange(int64_t cols) const {
    const int64_t outputs = rows * this->cols() / 2;
    return depthWarps > 1 && blocks(cols) <= mostExchangeBlocks && outputs <= std::min(inboxThreads, threads()) &&
           cols % groupColumns == 0;
  }
  int64_t threads() const { return 32 * (warpsN * depthWarps + rows / 4); }
  int64_t ownChains() const { return cut.allChains() / depthWarps; }
  /// Stages of the longest chain.
  int64_t stages(int64_t steps) const { return static_cast<int64_t>(llvm::divideCeil(cut.mostSteps(steps), unroll)); }
  /// Stages of a warp that are in shared memory together, and bytes of the weight in one.
  int64_t buffersOf(int64_t steps) const { return std::min(buffers, stages(steps) * turns); }
  int64_t stageBytes() const { return ownChains() * unroll * 8 * tilesN * stepBytes; }
  /// As the template lays it out.
  int64_t sharedBytes(int64_t steps) const {
    bool hasRanges = ownChains() % cut.chains == 0, sharesRows = depthWarps == 1;
    int64_t stage = stageBytes() + (sharesRows ? 0 : ownChains() * unroll * rows * stepBytes);
    int64_t stride = cols() + (cols() % 16 == 0 ? 8 : 0);
    int64_t sums = sharesRows ? 4 : depthWarps * (hasRanges ? ownChains() / cut.chains : ownChains()) * rows * stride;
    int64_t bytes = warpsN * depthWarps * buffersOf(steps) * stage + (sharesRows ? steps * rows : 1) * stepBytes +
                    sums * 4 + rows * 16;
    return static_cast<int64_t>(llvm::alignTo(bytes, 128));
  }
  /// About as many registers as ptxas assigns for sm_90a.
  int64_t registers() const { return ownChains() * tilesN * 4 + 16 * tilesN + 48; }
};

} // namespace

static bool isSoundMmaWarps(const Op &op, const Tile &tile) {
  WarpsBlock block(tile);
  int64_t steps = stepsOfDepth(op);
  if (block.cut.allChains() <= 0 || block.cut.allChains() > steps || block.depthWarps <= 0)
    return false;
  return (block.rows == 8 || block.rows == mostRowsOfBlock) && block.tilesN > 0 && block.warpsN > 0 &&
         block.cut.allChains() % block.depthWarps == 0 && block.unroll > 0 &&
         block.unroll <= block.cut.mostSteps(steps) && block.buffers > 0 && block.turns > 0 &&
         (block.turns == 1 || block.depthWarps == 1) && block.threads() <= 1024 &&
         (!sumsParts(op) || block.canExchange(colsOfProduct(op))) && block.registers() * block.threads() <= 65536;
}

static AttributeMap orderOfMmaWarps(const Op &, const Tile &tile) { return WarpsBlock(tile).cut.order(); }

static int64_t residentBlocks(const WarpsBlock &block, int64_t steps, const Target &target) {
  return occupancyOf({block.threads(), block.registers(), block.sharedBytes(steps)}, target).blocks;
}

/// The numbers of stages that a chain of so many steps may be cut into; the last gives each step one of its own.
static SmallVector<int64_t, 8> stagesOf(int64_t steps) {
  SmallVector<int64_t, 8> all;
  for (int64_t stages : {1, 2, 3, 4, 6, 8, 12})
    if (stages < steps)
      all.push_back(stages);
  all.push_back(steps);
  return all;
}

/// Calls `take` with the useful tiles for dims up to `upper`, until it returns true. Returns whether it did.
static bool findTile(const Op &op, const Target &target, const DimBinding &upper, function_ref<bool(Tile &&)> take) {
  const DepthCut cut = cutOfFewTokens(op, target);
  int64_t steps = stepsOfDepth(op), rows = valueAt(matmulProblem(op).rows, upper) > 8 ? mostRowsOfBlock : 8;
  int64_t most = cut.mostSteps(steps);
  auto finds = [&](int64_t depthWarps, int64_t warpsN, int64_t tilesN, int64_t stages, int64_t buffers, int64_t turns) {
    // A ring of less than three stages does not keep copies under way while others are multiplied.
    bool isUseful =
        buffers <= stages * turns && (buffers == stages * turns || buffers >= 3) && depthWarps * warpsN >= 4;
    if (!isUseful)
      return false;
    Tile tile = {{"buffers", buffers},   {"chains", cut.chains},
                 {"ranges", cut.ranges}, {"depth_warps", depthWarps},
                 {"rows", rows},         {"tiles_n", tilesN},
                 {"turns", turns},       {"unroll", static_cast<int64_t>(llvm::divideCeil(most, stages))},
                 {"warps_n", warpsN}};
    // What a block has room for is read before its turn comes. Unless that is all of its weight, or it stays for
    // several tiles, half of the memory is left to the next kernel, for its first weight. (8 rows of 1558M: 5 to 9 % of
    // a step.)
    const int64_t half = target.sharedOfEach(2);
    const int64_t room = turns > 1 || buffers == stages ? target.sharedPerBlock : half;
    return isSoundMmaWarps(op, tile) && WarpsBlock(tile).sharedBytes(steps) <= room && take(std::move(tile));
  };
  for (int64_t depthWarps = 1; depthWarps <= std::min<int64_t>(cut.allChains(), 24); ++depthWarps)
    for (int64_t warpsN : {1, 4, 8, 16})
      for (int64_t tilesN : {1, 2, 3, 4, 5, 6})
        for (int64_t stages : stagesOf(most))
          for (int64_t buffers : {6, 5, 4, 3, 2, 1})
            for (int64_t turns : {1, 2, 3, 4})
              // Warps with other columns but the same depth would copy the same rows.
              if (cut.allChains() % depthWarps == 0 && (depthWarps == 1 || (turns == 1 && warpsN == 1)) &&
                  finds(depthWarps, warpsN, tilesN, stages, buffers, turns))
                return true;
  return false;
}

static bool acceptsMmaWarps(const Op &op, const Target &target, const DimBinding &upper) {
  const Op &product = *anchor(op);
  if (!fitsTensorCores(op, target) || !hasLeftOperandInMemory(op))
    return false;
  const bool fits = dtypeSize(product.operand(1)->type.dtype) == 2 && hasFewTokens(op, product.result()->type) &&
                    target.hasWgmma && valueAt(matmulProblem(op).rows, upper) <= mostRowsOfBlock;
  return fits &&
         (!sumsParts(op) || (canSumParts(op, target) && findTile(op, target, upper, [](Tile &&) { return true; })));
}

static std::vector<Tile> mmaWarpsConfigurations(const Op &op, const Target &target, const DimBinding &upper) {
  std::vector<Tile> tiles;
  findTile(op, target, upper, [&](Tile &&tile) {
    tiles.push_back(std::move(tile));
    return false;
  });
  if (tiles.empty()) {
    const DepthCut cut = cutOfFewTokens(op, target);
    tiles.push_back({{"buffers", 1},
                     {"chains", cut.chains},
                     {"depth_warps", 1},
                     {"ranges", cut.ranges},
                     {"rows", valueAt(matmulProblem(op).rows, upper) > 8 ? mostRowsOfBlock : 8},
                     {"tiles_n", 1},
                     {"turns", 1},
                     {"unroll", 1},
                     {"warps_n", 1}});
  }
  return tiles;
}

static Launch launchMmaWarps(const Op &op, const Tile &tile) {
  WarpsBlock block(tile);
  MatmulProblem problem = matmulProblem(op);
  return {.grid = {ceilDiv(problem.cols, Expr(block.cols() * block.turns)), ceilDiv(problem.rows, Expr(block.rows)),
                   Expr(1)},
          .threads = block.threads(),
          .dynamicShared = block.sharedBytes(stepsOfDepth(op))};
}

static double estimateMmaWarps(const Op &op, const Tile &tile, const Target &target, const DimBinding &dims) {
  const KernelTimes::MmaWarps &times = target.times.mmaWarps;
  WarpsBlock block(tile);
  MatmulProblem problem = matmulProblem(op);
  int64_t steps = stepsOfDepth(op);
  double cols = static_cast<double>(valueAt(problem.cols, dims)), rows = valueAt(problem.rows, dims);
  double blocks = std::ceil(cols / static_cast<double>(block.cols() * block.turns)) *
                  std::ceil(rows / static_cast<double>(block.rows));
  double perMultiprocessor = std::ceil(blocks / target.multiprocessors);
  double resident = std::min<double>(perMultiprocessor, std::max<int64_t>(1, residentBlocks(block, steps, target)));
  double stages = static_cast<double>(block.stages(steps)),
         warps = static_cast<double>(block.warpsN * block.depthWarps);
  // As for gemv_row_simt: bytes in flight reach a share of the memory rate, and uneven columns cost.
  // In a ring, on average half a stage less.
  double turns = stages * static_cast<double>(block.turns), buffers = static_cast<double>(block.buffersOf(steps));
  double underWay = resident * warps * (buffers < turns ? buffers - 0.5 : buffers) * double(block.stageBytes());
  double share = std::min(1.0, std::pow(underWay / times.fullLoads, times.loadsPower));
  double widest = perMultiprocessor * static_cast<double>(block.cols() * block.turns);
  double imbalance = std::max(1.0, std::min(widest, cols) * target.multiprocessors / cols);
  double bytes = cols * static_cast<double>(steps * stepBytes);
  double memory = bytes / (target.memoryRate * share) * std::pow(imbalance, times.imbalancePower);
  // Behind the rows' arrival: rows that a multiprocessor reads; the products of a chain one after the other, or all of
  // a warp's, or all of a quarter's; and the exchange of sums.
  double ofChain = static_cast<double>(block.cut.mostSteps(steps) * 4 * block.turns);
  double ofWarp = ofChain * static_cast<double>(block.ownChains() * block.tilesN);
  double chain = std::max({ofChain * times.chain, ofWarp * times.product, resident * warps / 4 * ofWarp * times.issue});
  double readRows = resident * static_cast<double>((block.depthWarps == 1 ? 1 : block.warpsN) * steps * stepBytes) *
                    std::min(rows, static_cast<double>(block.rows));
  double sums = block.depthWarps > 1 ? static_cast<double>(block.depthWarps * block.rows * block.cols() * 4) / 128 : 0;
  chain += times.turn * (turns - 1);
  // The kernel before gives the first weights time to arrive. While more of them do, products of earlier stages run.
  double clock = target.times.clock, waves = std::ceil(perMultiprocessor / resident);
  double hidden = std::min(chain * (turns - 1) / turns / clock, std::max(0.0, memory - times.ahead));
  // Rows of later stages arrive while those of earlier ones are multiplied.
  double reading = readRows / times.rowsRate, together = std::min(reading, chain / clock) * (turns - 1) / turns;
  double latency = reading + (chain + sums) / clock - std::max(hidden, together);
  return target.launchSeconds + memory + waves * latency + times.block * (perMultiprocessor - 1) + times.ends;
}

const KernelFamily mmaWarpsFamily = {
    .name = "gemv_mma_warps",
    .summary = "matrix product of up to 16 rows in tensor cores: each warp copies what it multiplies",
    .header = "gemv/mma_warps.cuh",
    .body = "mmaWarps",
    .form = KernelForm::TensorMatmul,
    .waitsItself = true,
    .readsAhead = true,
    .accepts = acceptsMmaWarps,
    .configurations = mmaWarpsConfigurations,
    .isSound = isSoundMmaWarps,
    .order = orderOfMmaWarps,
    // Block b of a rank exchanges with block b of the others, along columns alone.
    .mostRows = [](const Op &op, const Tile &tile) { return sumsParts(op) ? WarpsBlock(tile).rows : INT64_MAX; },
    .launch = launchMmaWarps,
    .estimate = estimateMmaWarps,
    .inbox = [](const Op &op, const Tile &tile) { return inboxBytes(op, WarpsBlock(tile).blocks(colsOfProduct(op))); },
};

} // namespace kiln
