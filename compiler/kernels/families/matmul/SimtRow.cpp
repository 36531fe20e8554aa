// The matrix product of one row of activations: decode at batch 1.
#include "kernels/cost/Problem.h"
#include "kernels/families/Families.h"
#include "ops/Region.h"

namespace kiln {

static bool acceptsRow(const Op &op, const Target &, const DimBinding &upper) {
  if (!anchor(op)->is(OpKind::matmul) || usesGroups(op))
    return false;
  const Op &product = *anchor(op);
  const Type &x = product.operand(0)->type;
  bool isOneRow = product.boolAttribute("transpose_b") && hasFewTokens(op, x) && x.lastDim().asConstant();
  // The weight and the normalisation's parameters are read before the previous kernel has ended.
  bool readsConstants = !product.operand(1)->definingOp();
  if (isOneRow && !hasLeftOperandInMemory(op))
    for (const Value *parameter : product.operand(0)->definingOp()->operands().drop_front())
      readsConstants &= !parameter->definingOp();
  // A row that is normalised is in shared memory, padded to whole steps of its warps.
  int64_t depth = isOneRow ? *x.lastDim().asConstant() : 0;
  return isOneRow && readsConstants && valueAt(matmulProblem(op).rows, upper) == 1 &&
         (hasLeftOperandInMemory(op) || depth <= 11264);
}

namespace {

/// Quantities that follow from a configuration for a problem.
struct RowShape {
  RowShape(const Op &op, const Tile &tile)
      : colsPerBlock(setting(tile, "cols_per_block")), colsPerWarp(setting(tile, "cols_per_warp")),
        depthWarps(setting(tile, "depth_warps")), unroll(setting(tile, "unroll")), warps(setting(tile, "warps")),
        isNormalized(!hasLeftOperandInMemory(op)) {
    const Value &weight = *anchor(op)->operand(1);
    depth = *weight.type.lastDim().asConstant();
    perVector = 16 / dtypeSize(weight.type.dtype);
    steps = llvm::divideCeil(depth, 32 * perVector * depthWarps);
    tiles = llvm::divideCeil(colsPerBlock, warps / depthWarps * colsPerWarp);
  }

  int64_t threads() const { return 32 * warps; }
  bool isDoubleBuffered() const { return tiles > 1 || unroll < steps; }
  /// The bytes of weights that a block has in flight before it multiplies.
  int64_t bytesInStage() const { return threads() * unroll * colsPerWarp * 16; }
  /// About as many registers as ptxas assigns for sm_90a.
  int64_t registers() const {
    int64_t weights = colsPerWarp * unroll * 4;
    int64_t next = !isDoubleBuffered() ? 0 : isNormalized ? 6 : weights * 3 / 4;
    return llvm::alignTo(weights + next + (isNormalized ? 44 : 24), 8);
  }

  /// Shared memory, as in the template: a row that is normalised, padded to whole steps, with each warp's statistics;
  /// or the sums of warps that share columns.
  int64_t shared() const {
    if (isNormalized)
      return llvm::alignTo(4 * llvm::alignTo(depth, 32 * widestVector(depth, perVector)) + 8 * warps, 16);
    return depthWarps > 1 ? 4 * warps * colsPerWarp : 0;
  }

  int64_t colsPerBlock, colsPerWarp, depthWarps, unroll, warps;
  int64_t depth, perVector;
  int64_t steps; ///< of one warp along the depth
  int64_t tiles; ///< that a block computes one after the other
  bool isNormalized;
};

} // namespace

/// The blocks of a multiprocessor that run at the same time.
static int64_t residentBlocks(const RowShape &shape, const Target &target) {
  return std::min(target.threadsPerMultiprocessor / shape.threads(), 65536 / (shape.registers() * shape.threads()));
}

/// Whether a configuration is promising: few warps have no columns, all blocks run at once, and registers suffice for
/// the loads in flight.
static bool isWorthTrying(const RowShape &shape, int64_t blocksPerMultiprocessor, const Target &target) {
  int64_t idle = shape.tiles * (shape.warps / shape.depthWarps) * shape.colsPerWarp - shape.colsPerBlock;
  return idle * 8 <= shape.colsPerBlock && blocksPerMultiprocessor <= residentBlocks(shape, target) &&
         shape.unroll * shape.colsPerWarp <= 8 && (shape.unroll <= 4 || !shape.isDoubleBuffered()) &&
         (shape.colsPerWarp <= 2 || !shape.isNormalized);
}

static std::vector<Tile> rowConfigurations(const Op &op, const Target &target, const DimBinding &upper) {
  int64_t cols = valueAt(matmulProblem(op).cols, upper);
  std::vector<Tile> tiles, fallback;
  for (int64_t blocks : {1, 2, 3, 4}) // per multiprocessor
    for (int64_t granule : {1, 2, 4})
      for (int64_t colsPerWarp : {1, 2, 4})
        for (int64_t warps : {4, 6, 8, 9, 10, 12, 13, 16})
          for (int64_t depthWarps : {1, 2, 4})
            for (int64_t stages : {1, 2, 3, 4}) {
              if (warps % depthWarps || (depthWarps > 1 && !hasLeftOperandInMemory(op)))
                continue;
              int64_t colsPerBlock = llvm::alignTo(llvm::divideCeil(cols, target.multiprocessors * blocks), granule);
              Tile tile = {{"cols_per_block", colsPerBlock},
                           {"cols_per_warp", colsPerWarp},
                           {"depth_warps", depthWarps},
                           {"unroll", 1},
                           {"warps", warps}};
              RowShape shape(op, tile);
              shape.unroll = llvm::divideCeil(shape.steps, stages);
              tile.find("unroll")->second = shape.unroll;
              if (depthWarps > 1 && shape.tiles > 1)
                continue; // these warps meet only once
              if (isWorthTrying(shape, blocks, target))
                tiles.push_back(tile);
              else if (stages == 4 && fallback.empty())
                fallback.push_back(tile);
            }
  return tiles.empty() ? fallback : tiles;
}

/// The conditions that the template asserts.
static bool isSoundRow(const Op &op, const Tile &tile) {
  const int64_t warps = setting(tile, "warps"), depthWarps = setting(tile, "depth_warps"),
                colsPerWarp = setting(tile, "cols_per_warp");
  if (warps % depthWarps != 0 || warps > 32 || !isPowerOfTwo(colsPerWarp) || colsPerWarp > 4 ||
      setting(tile, "unroll") > mostUnroll)
    return false;
  const RowShape shape(op, tile);
  const int64_t step = 32 * widestVector(shape.depth, shape.perVector) * depthWarps;
  const int64_t staged = llvm::alignTo(shape.depth, step) * 4 + warps * 8;
  return (depthWarps == 1 || (shape.tiles == 1 && !shape.isNormalized)) &&
         (!shape.isNormalized || staged <= maxStaticShared);
}

static Launch launchRow(const Op &op, const Tile &tile) {
  MatmulProblem problem = matmulProblem(op);
  return {.grid = {ceilDiv(problem.cols, Expr(setting(tile, "cols_per_block"))), problem.rows, Expr(1)},
          .threads = 32 * setting(tile, "warps"),
          .staticShared = RowShape(op, tile).shared()};
}

/// Uses times that were fitted to some 180 configurations of GPT-2's products in whole decode steps, within 10 % of the
/// measured times.
static double estimateRow(const Op &op, const Tile &tile, const Target &target, const DimBinding &dims) {
  const KernelTimes::RowProduct &times = target.times.rowProduct;
  MatmulProblem problem = matmulProblem(op);
  RowShape shape(op, tile);
  double cols = valueAt(problem.cols, dims), depth = valueAt(problem.depth, dims);
  double blocks = std::ceil(cols / shape.colsPerBlock) * valueAt(problem.rows, dims);
  double perMultiprocessor = std::ceil(blocks / target.multiprocessors);
  double resident = std::min<double>(perMultiprocessor, std::max<int64_t>(1, residentBlocks(shape, target)));
  // Little's law, softened: other kernels' loads fill the pipe, too. With double buffering, half of the bytes are in
  // flight.
  double underWay = resident * shape.bytesInStage() * (shape.isDoubleBuffered() ? times.doubleBuffered : 1);
  double share = std::min(1.0, std::pow(underWay / times.fullLoads, times.loadsPower));
  // A multiprocessor with more columns than others gets a larger share of the memory rate while it works alone.
  double imbalance =
      std::max(1.0, std::min(perMultiprocessor * shape.colsPerBlock, cols) * target.multiprocessors / cols);
  double bytes = cols * depth * dtypeSize(anchor(op)->operand(1)->type.dtype);
  double memory = bytes / (target.memoryRate * share) * std::pow(imbalance, times.imbalancePower);
  // Instructions of a warp's step: a load, 8 conversions and 8 FMAs per column, and once the row's elements.
  double perStep = shape.colsPerWarp * 18 + (shape.isNormalized ? 7 : 20);
  double instructions = perMultiprocessor * shape.warps * (shape.tiles * shape.steps * perStep + 18);
  double lanesPerSecond = target.f32Rate / 2 / target.multiprocessors;
  double arithmetic = instructions * 32 / lanesPerSecond / times.arithmeticRate;
  // Beside the launch: normalising, where all warps meet; an epilogue per tile; and the turns of a tile's loads.
  double stages = std::ceil(static_cast<double>(shape.steps) / static_cast<double>(shape.unroll));
  double normalizing = shape.isNormalized ? times.normalize + times.normalizeWarp * shape.warps : 0;
  double latency = target.launchSeconds + normalizing + times.tile * shape.tiles + times.turn * (stages - 1);
  return latency + std::max(memory, arithmetic);
}

const KernelFamily simtRowFamily = {
    .name = "gemv_row_simt",
    .summary = "matrix product of one row: weight rows streamed by warps, the row in registers",
    .header = "gemv/simt_row.cuh",
    .body = "simtRow",
    .form = KernelForm::Matmul,
    .waitsItself = true,
    .readsAhead = true,
    .accepts = acceptsRow,
    .configurations = rowConfigurations,
    .isSound = isSoundRow,
    .launch = launchRow,
    .estimate = estimateRow,
};

} // namespace kiln
