// Matrix products of the simt family: few rows (decode), tiles (prefill), batched (unfused attention).
#include "kernels/cost/BlockCost.h"
#include "kernels/cost/Problem.h"
#include "kernels/cost/Work.h"
#include "kernels/families/Families.h"
#include "ops/Region.h"

namespace kiln {

static bool isMatmul(const Op &op) { return anchor(op)->is(OpKind::matmul) && !usesGroups(op); }

static int64_t weightBytes(const Op &op) { return dtypeSize(anchor(op)->operand(1)->type.dtype); }

//===----------------------------------------------------------------------===//
// gemv_simt: weight rows are read once, for 1 to 16 rows of activations
//===----------------------------------------------------------------------===//

static bool acceptsSimtRows(const Op &op, const Target &, const DimBinding &) {
  if (!isMatmul(op))
    return false;
  const Op &product = *anchor(op);
  const Type &x = product.operand(0)->type;
  // Few tokens per sequence: the rows are the batch or a few times as many, with any bound, since passes of up to 16
  // rows loop over it.
  return product.boolAttribute("transpose_b") && hasFewTokens(op, x) && x.lastDim().asConstant();
}

static std::vector<Tile> simtRowsConfigurations(const Op &op, const Target &, const DimBinding &upper) {
  int64_t rows = valueAt(matmulProblem(op).rows, upper);
  int64_t perPass = std::min<int64_t>(8, llvm::PowerOf2Ceil(rows));
  std::vector<Tile> tiles;
  for (int64_t warps : {2, 4, 8})
    for (int64_t cols : {1, 2, 4})
      for (int64_t unroll : {1, 2, 4})
        if (perPass * cols <= 16)
          tiles.push_back({{"cols_per_warp", cols}, {"rows", perPass}, {"unroll", unroll}, {"warps", warps}});
  return tiles;
}

/// Shared memory, as in the template: the rows' elements for as many stages as fit, and the rows' statistics.
static int64_t simtRowsShared(const Op &op, const Tile &tile) {
  int64_t rows = setting(tile, "rows"), depth = *anchor(op)->operand(0)->type.lastDim().asConstant();
  int64_t stage = 32 * widestVector(depth, 16 / weightBytes(op)) * setting(tile, "unroll"), statistics = 8 * rows;
  int64_t fit = (maxStaticShared - statistics) / (4 * rows * stage), stages = llvm::divideCeil(depth, stage);
  return llvm::alignTo(4 * rows * stage * std::min(stages, std::max<int64_t>(1, fit)) + statistics, 16);
}

/// The conditions that the template asserts, and vectors of columns that no move behind the product parts.
static bool isSoundSimtRows(const Op &op, const Tile &tile) {
  const int64_t rows = setting(tile, "rows"), cols = setting(tile, "cols_per_warp"), unroll = setting(tile, "unroll");
  const int64_t depth = *anchor(op)->operand(0)->type.lastDim().asConstant();
  if (!isPowerOfTwo(rows) || rows > 16 || !isPowerOfTwo(cols) || cols > mostOutputVec(*anchor(op)) ||
      unroll > mostUnroll)
    return false;
  return 4 * rows * 32 * widestVector(depth, 16 / weightBytes(op)) * unroll + 8 * rows <= maxStaticShared;
}

static Launch launchSimtRows(const Op &op, const Tile &tile) {
  int64_t colsPerBlock = setting(tile, "warps") * setting(tile, "cols_per_warp");
  return {.grid = {ceilDiv(matmulProblem(op).cols, Expr(colsPerBlock)), Expr(1), Expr(1)},
          .threads = 32 * setting(tile, "warps"),
          .staticShared = simtRowsShared(op, tile)};
}

static double estimateSimtRows(const Op &op, const Tile &tile, const Target &target, const DimBinding &dims) {
  MatmulProblem problem = matmulProblem(op);
  double rows = valueAt(problem.rows, dims), cols = valueAt(problem.cols, dims), depth = valueAt(problem.depth, dims);
  double colsPerBlock = setting(tile, "warps") * setting(tile, "cols_per_warp");
  BlockCost cost;
  cost.blocks = std::ceil(cols / colsPerBlock);
  cost.threads = 32 * setting(tile, "warps");
  cost.flopsPerBlock = 2 * rows * colsPerBlock * depth;
  cost.efficiency = 0.5;
  cost.l2BytesPerBlock = rows * depth * 4;
  cost.memoryBytes = cols * depth * static_cast<double>(weightBytes(op));
  // Two stages of 16-byte loads per lane and column, limited by the row's length.
  double perLane = std::min(2.0 * setting(tile, "unroll") * 16, depth * static_cast<double>(weightBytes(op)) / 32);
  cost.bytesInFlight = static_cast<int64_t>(cost.threads * setting(tile, "cols_per_warp") * perLane);
  cost.sharedBytes = static_cast<int64_t>(std::min(48.0 * 1024, setting(tile, "rows") * depth * 4));
  // Every block stages and normalises all rows itself, at about 20 instructions per element. Small blocks repeat this
  // for few columns.
  double lanesPerSecond = target.f32Rate / 2 / target.multiprocessors;
  double staging = std::ceil(cost.blocks / target.multiprocessors) * rows * depth * 20 / lanesPerSecond;
  return estimateSeconds(cost, target) + staging;
}

const KernelFamily simtRowsFamily = {
    .name = "gemv_simt",
    .summary = "matrix product for one token a sequence: weight rows streamed once by warps",
    .header = "gemv/simt_rows.cuh",
    .body = "simtRows",
    .form = KernelForm::Matmul,
    .waitsItself = true,
    .accepts = acceptsSimtRows,
    .configurations = simtRowsConfigurations,
    .isSound = isSoundSimtRows,
    .launch = launchSimtRows,
    .estimate = estimateSimtRows,
};

//===----------------------------------------------------------------------===//
// gemm_simt and gemm_batched_simt: tiles in shared memory and registers
//===----------------------------------------------------------------------===//

static std::vector<Tile> simtTiledConfigurations(const Op &, const Target &, const DimBinding &) {
  struct Shape {
    int64_t rows, cols, depth, threadRows, threadCols;
  };
  // Square and oblong tiles; 4 × 4 per thread gives small problems more blocks, 8 × 8 needs the fewest shared reads.
  static constexpr Shape shapes[] = {{32, 32, 32, 4, 4},  {32, 64, 16, 4, 4},  {64, 32, 16, 4, 4},  {64, 64, 16, 4, 4},
                                     {64, 64, 16, 8, 4},  {64, 128, 16, 8, 4}, {64, 128, 16, 8, 8}, {128, 64, 16, 8, 8},
                                     {128, 128, 8, 8, 8}, {128, 128, 16, 8, 8}};
  std::vector<Tile> tiles;
  for (const Shape &shape : shapes)
    tiles.push_back({{"thread_cols", shape.threadCols},
                     {"thread_rows", shape.threadRows},
                     {"tile_cols", shape.cols},
                     {"tile_depth", shape.depth},
                     {"tile_rows", shape.rows}});
  return tiles;
}

static int64_t simtTiledThreads(const Tile &tile) {
  return setting(tile, "tile_rows") / setting(tile, "thread_rows") *
         (setting(tile, "tile_cols") / setting(tile, "thread_cols"));
}

/// The conditions that the template asserts.
static bool isSoundSimtTiled(const Op &op, const Tile &tile) {
  int64_t rows = setting(tile, "tile_rows"), cols = setting(tile, "tile_cols"), depth = setting(tile, "tile_depth");
  int64_t threadRows = setting(tile, "thread_rows"), threadCols = setting(tile, "thread_cols");
  if (rows % 32 || cols % 32 || threadRows % 4 || threadCols % 4 || rows % threadRows || cols % threadCols)
    return false;
  // Statistics of rows take whole warps.
  if (op.region() && findInRegion(op, OpKind::layernorm) && simtTiledThreads(tile) % 32)
    return false;
  return (depth == 8 || depth == 16 || depth == 32) && isPowerOfTwo(rows / threadRows) &&
         isPowerOfTwo(cols / threadCols);
}

/// Shared memory, as in the template: two buffers if both fit, and statistics of rows.
static int64_t simtTiledShared(const Tile &tile) {
  int64_t rows = setting(tile, "tile_rows"),
          buffer = 4 * setting(tile, "tile_depth") * (rows + setting(tile, "tile_cols"));
  return (2 * buffer + 8 * rows <= maxStaticShared ? 2 : 1) * buffer + 8 * rows;
}

static Launch launchSimtTiled(const Op &op, const Tile &tile) {
  MatmulProblem problem = matmulProblem(op);
  return {.grid = {ceilDiv(problem.cols, Expr(setting(tile, "tile_cols"))),
                   ceilDiv(problem.rows, Expr(setting(tile, "tile_rows"))), problem.batch},
          .threads = simtTiledThreads(tile),
          .staticShared = simtTiledShared(tile)};
}

static double estimateSimtTiled(const Op &op, const Tile &tile, const Target &target, const DimBinding &dims) {
  MatmulProblem problem = matmulProblem(op);
  double rows = valueAt(problem.rows, dims), cols = valueAt(problem.cols, dims), depth = valueAt(problem.depth, dims);
  double tileRows = setting(tile, "tile_rows"), tileCols = setting(tile, "tile_cols");
  double threadRows = setting(tile, "thread_rows"), threadCols = setting(tile, "thread_cols");
  BlockCost cost;
  cost.blocks = std::ceil(rows / tileRows) * std::ceil(cols / tileCols) * valueAt(problem.batch, dims);
  cost.threads = simtTiledThreads(tile);
  cost.flopsPerBlock = 2 * tileRows * tileCols * depth;
  // In each step, a thread reads threadRows + threadCols values from shared memory for threadRows · threadCols FMAs;
  // one instruction loads four values.
  double fmas = threadRows * threadCols;
  cost.efficiency = fmas / (fmas + (threadRows + threadCols) * 0.75 + 2);
  cost.l2BytesPerBlock = (tileRows + tileCols) * depth * 4;
  cost.memoryBytes = bytesMovedAt(op, dims);
  cost.sharedBytes = simtTiledShared(tile);
  return estimateSeconds(cost, target);
}

const KernelFamily simtTiledFamily = {
    .name = "gemm_simt",
    .summary = "matrix product in shared-memory and register tiles, fp32 arithmetic",
    .header = "gemm/simt_tiled.cuh",
    .body = "simtTiled",
    .form = KernelForm::Matmul,
    .takesEitherOrder = true,
    .accepts = [](const Op &op, const Target &, const DimBinding &) { return isMatmul(op); },
    .configurations = simtTiledConfigurations,
    .isSound = isSoundSimtTiled,
    .launch = launchSimtTiled,
    .estimate = estimateSimtTiled,
};

const KernelFamily simtBatchedFamily = {
    .name = "gemm_batched_simt",
    .summary = "one tiled product a head: QK^T and PV of attention that is not fused",
    .header = "gemm/simt_tiled.cuh",
    .body = "simtTiled",
    .form = KernelForm::Batched,
    .accepts = [](const Op &op, const Target &, const DimBinding &) { return op.is(OpKind::qk) || op.is(OpKind::pv); },
    .configurations = simtTiledConfigurations,
    .isSound = isSoundSimtTiled,
    .launch = launchSimtTiled,
    .estimate = estimateSimtTiled,
};

const KernelFamily simtScoresFamily = {
    .name = "scores_simt",
    .summary = "masked QK^T up to the diagonal, tiles in shared memory and registers",
    .header = "gemm/simt_tiled.cuh",
    .body = "simtTiled",
    .form = KernelForm::Batched,
    .accepts = [](const Op &op, const Target &, const DimBinding &) { return isMaskedScores(op); },
    .configurations = simtTiledConfigurations,
    .isSound = isSoundSimtTiled,
    .launch = launchSimtTiled,
    .estimate = estimateSimtTiled,
};

} // namespace kiln
