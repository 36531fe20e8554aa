// Kernels bound by memory: layernorm, softmax, and element-wise functions.
#include "kernels/cost/BlockCost.h"
#include "kernels/cost/Problem.h"
#include "kernels/cost/Work.h"
#include "kernels/families/Families.h"
#include "ops/Region.h"

namespace kiln {

static double estimateStreaming(const Op &op, double blocks, int64_t threads, int64_t bytesInFlight,
                                const Target &target, const DimBinding &dims) {
  BlockCost cost;
  cost.blocks = blocks;
  cost.threads = threads;
  cost.memoryBytes = bytesMovedAt(op, dims);
  cost.bytesInFlight = bytesInFlight;
  return estimateSeconds(cost, target);
}

/// The rows and row length of a row-wise kernel: those of its anchor's operand.
static const Type &rowType(const Op &op) { return anchor(op)->operand(0)->type; }

static Launch launchRowWise(const Op &op, const Tile &tile) {
  int64_t threads = setting(tile, "threads"), rowThreads = setting(tile, "row_threads");
  return {.grid = {ceilDiv(rowCount(rowType(op)), Expr(threads / rowThreads)), Expr(1), Expr(1)},
          .threads = threads,
          .staticShared = rowThreads == threads && threads != 32 ? blockScratchBytes : 0}; // of the reductions
}

static double estimateRowWise(const Op &op, const Tile &tile, const Target &target, const DimBinding &dims) {
  int64_t threads = setting(tile, "threads"), rowThreads = setting(tile, "row_threads");
  double rows = valueAt(rowCount(rowType(op)), dims);
  double cols = valueAt(rowType(op).lastDim().expr(), dims);
  double rowsPerBlock = static_cast<double>(threads) / static_cast<double>(rowThreads);
  double perThread = std::ceil(cols / static_cast<double>(rowThreads));
  int64_t inFlight = static_cast<int64_t>(static_cast<double>(threads) * std::min(perThread, 16.0) *
                                          static_cast<double>(dtypeSize(rowType(op).dtype)));
  // Unlike a reduction over a warp, one over a block has barriers, once for each set of resident blocks.
  double blocks = std::ceil(rows / rowsPerBlock);
  double resident = target.multiprocessors * std::floor(target.threadsPerMultiprocessor / static_cast<double>(threads));
  double barriers = rowThreads > 32 ? target.times.blockReduction * std::ceil(blocks / resident) : 0;
  return estimateStreaming(op, blocks, threads, inFlight, target, dims) + barriers;
}

//===----------------------------------------------------------------------===//
// layernorm
//===----------------------------------------------------------------------===//

/// Longer rows, of more than 64 elements for each of 512 threads, have no configuration.
constexpr int64_t maxLayerNormCols = 64 * 512;

static bool acceptsLayerNorm(const Op &op, const Target &, const DimBinding &) {
  if (!anchor(op)->is(OpKind::layernorm) ||
      rowType(op).lastDim().asConstant().value_or(maxLayerNormCols + 1) > maxLayerNormCols)
    return false;
  if (!op.region())
    return true;
  // There may be one addition before the normalisation, and no op after it.
  const auto &ops = op.region()->ops();
  return ops.size() == 3 && ops.front()->is(OpKind::add) && ops.front()->next()->is(OpKind::layernorm);
}

/// Rows that do not fit in registers (64 elements per thread) are in shared memory, all rows of a block at once.
static Launch launchLayerNorm(const Op &op, const Tile &tile) {
  int64_t cols = *rowType(op).lastDim().asConstant(), vec = setting(tile, "vec");
  int64_t threads = setting(tile, "threads"), rowThreads = setting(tile, "row_threads");
  Launch launch = launchRowWise(op, tile);
  if (rowThreads > 1 && llvm::divideCeil(cols, vec * rowThreads) * vec > 64)
    launch.staticShared += llvm::alignTo(threads / rowThreads * cols * 4, 32);
  return launch;
}

static std::vector<Tile> layerNormConfigurations(const Op &op, const Target &, const DimBinding &) {
  int64_t cols = *rowType(op).lastDim().asConstant();
  int64_t vec = widestVector(cols, 16 / dtypeSize(rowType(op).dtype));
  std::vector<Tile> tiles;
  for (int64_t threads : {128, 256, 512})
    for (int64_t rowThreads : {int64_t(32), threads}) {
      Tile tile = {{"row_threads", rowThreads}, {"threads", threads}, {"vec", vec}};
      if (launchLayerNorm(op, tile).staticShared < maxStaticShared)
        tiles.push_back(std::move(tile));
    }
  return tiles;
}

/// Whether a row has one thread, a warp or the block.
static bool hasRowThreads(const Tile &tile) {
  int64_t threads = setting(tile, "threads"), rowThreads = setting(tile, "row_threads");
  return threads % 32 == 0 && (rowThreads == 1 || rowThreads == 32 || rowThreads == threads);
}

static bool isSoundLayerNorm(const Op &op, const Tile &tile) {
  int64_t cols = *rowType(op).lastDim().asConstant(), vec = setting(tile, "vec");
  return hasRowThreads(tile) && isPowerOfTwo(vec) && vec <= 8 && cols % vec == 0;
}

/// The threads of a row have equal shares of it; then their sums are added.
static AttributeMap orderOfRows(const Op &, const Tile &tile) {
  return {{"row_threads", setting(tile, "row_threads")}, {"vec", setting(tile, "vec")}};
}

const KernelFamily layerNormFamily = {
    .name = "layernorm",
    .summary = "layer normalisation of rows, a warp or a block each, with the residual addition before it",
    .header = "norm/layernorm.cuh",
    .body = "layerNorm",
    .form = KernelForm::LayerNorm,
    .accepts = acceptsLayerNorm,
    .configurations = layerNormConfigurations,
    .isSound = isSoundLayerNorm,
    .order = orderOfRows,
    .launch = launchLayerNorm,
    .estimate = estimateRowWise,
};

/// The layernorm configurations of the ladder's rungs: hints that memory is used once, and the variance in one pass.
static std::vector<Tile> streamingLayerNormConfigurations(const Op &op, const Target &target, const DimBinding &upper) {
  std::vector<Tile> tiles;
  for (bool onePass : {false, true})
    for (Tile &tile : layerNormConfigurations(op, target, upper)) {
      tile.insert({{"one_pass", onePass}, {"streaming", true}});
      tiles.push_back(std::move(tile));
    }
  return tiles;
}

const KernelFamily streamingLayerNormFamily = {
    .name = "layernorm_streaming",
    .summary = "layer normalisation of rows that are read and written once, the variance in two passes or in one",
    .header = "norm/layernorm.cuh",
    .body = "layerNorm",
    .form = KernelForm::LayerNorm,
    .byRequestOnly = true,
    .accepts = acceptsLayerNorm,
    .configurations = streamingLayerNormConfigurations,
    .isSound = isSoundLayerNorm,
    .launch = launchLayerNorm,
    .estimate = estimateRowWise,
};

//===----------------------------------------------------------------------===//
// row_statistics
//===----------------------------------------------------------------------===//

/// A region of row_mean and row_rstd, of one tensor, both of which it yields.
static bool acceptsRowStatistics(const Op &op, const Target &, const DimBinding &) {
  if (!op.region() || op.region()->ops().size() != 3 ||
      rowType(op).lastDim().asConstant().value_or(maxLayerNormCols + 1) > maxLayerNormCols)
    return false;
  const Op &mean = *op.region()->ops().front(), &rstd = *mean.next();
  ArrayRef<Value *> yielded = op.region()->terminator()->operands();
  return mean.is(OpKind::rowMean) && rstd.is(OpKind::rowRstd) && rstd.operand(0) == mean.operand(0) &&
         rstd.operand(1) == mean.result() && yielded.equals({mean.result(), rstd.result()});
}

const KernelFamily rowStatisticsFamily = {
    .name = "row_statistics",
    .summary = "mean and reciprocal deviation of rows, a warp or a block each, in one pass over memory",
    .header = "norm/statistics_of_rows.cuh",
    .body = "statisticsOfRows",
    .form = KernelForm::RowStatistics,
    .accepts = acceptsRowStatistics,
    .configurations = layerNormConfigurations,
    .isSound = isSoundLayerNorm,
    .order = orderOfRows,
    .launch = launchLayerNorm,
    .estimate = estimateRowWise,
};

//===----------------------------------------------------------------------===//
// row_reduction
//===----------------------------------------------------------------------===//

static bool acceptsRowReduction(const Op &op, const Target &, const DimBinding &) {
  return (op.is(OpKind::rowMean) || op.is(OpKind::rowRstd)) && rowType(op).lastDim().asConstant();
}

static std::vector<Tile> rowReductionConfigurations(const Op &, const Target &, const DimBinding &) {
  return {{{"threads", 128}}, {{"threads", 256}}, {{"threads", 512}}};
}

const KernelFamily rowReductionFamily = {
    .name = "row_reduction",
    .summary = "one number of each row: a block a row, its sums halved in shared memory",
    .header = "norm/row_reduction.cuh",
    .body = "rowReduction",
    .form = KernelForm::RowReduction,
    .accepts = acceptsRowReduction,
    .configurations = rowReductionConfigurations,
    .isSound =
        [](const Op &, const Tile &tile) {
          return setting(tile, "threads") >= 32 && isPowerOfTwo(setting(tile, "threads"));
        },
    .launch = [](const Op &op, const Tile &tile) -> Launch {
      int64_t threads = setting(tile, "threads");
      return {.grid = {rowCount(rowType(op)), Expr(1), Expr(1)}, .threads = threads, .staticShared = 4 * threads};
    },
    .estimate =
        [](const Op &op, const Tile &tile, const Target &target, const DimBinding &dims) {
          double rows = static_cast<double>(valueAt(rowCount(rowType(op)), dims));
          return estimateStreaming(op, rows, setting(tile, "threads"), setting(tile, "threads") * 4, target, dims);
        },
};

//===----------------------------------------------------------------------===//
// softmax
//===----------------------------------------------------------------------===//

static std::vector<Tile> softmaxConfigurations(const Op &, const Target &, const DimBinding &) {
  std::vector<Tile> tiles;
  for (int64_t threads : {128, 256})
    for (int64_t rowThreads : {int64_t(32), threads})
      tiles.push_back({{"online", true}, {"row_threads", rowThreads}, {"threads", threads}, {"vec", 1}});
  return tiles;
}

const KernelFamily softmaxFamily = {
    .name = "softmax",
    .summary = "softmax of rows of attention scores",
    .header = "norm/softmax.cuh",
    .body = "softmax",
    .form = KernelForm::Softmax,
    .accepts = [](const Op &op, const Target &, const DimBinding &) { return op.is(OpKind::softmax); },
    .configurations = softmaxConfigurations,
    .isSound = [](const Op &, const Tile &tile) { return hasRowThreads(tile) && setting(tile, "vec") == 1; },
    .launch = launchRowWise,
    .estimate = estimateRowWise,
};

//===----------------------------------------------------------------------===//
// map
//===----------------------------------------------------------------------===//

static bool acceptsMap(const Op &op, const Target &, const DimBinding &) {
  return !op.region() &&
         (op.has(Trait::Pointwise) || op.has(Trait::Layout) || op.is(OpKind::embed) || op.is(OpKind::normalize));
}

static std::vector<Tile> mapConfigurations(const Op &op, const Target &, const DimBinding &) {
  // A vector must stay within a row of the input and of the output. The columns of a mask are keys, each visible or
  // not.
  std::optional<int64_t> from = walkedValue(op).type.lastDim().asConstant(),
                         to = op.result()->type.lastDim().asConstant();
  int64_t vec = from && to && !op.is(OpKind::causalMask) ? std::min(widestVector(*from, 4), widestVector(*to, 4)) : 1;
  std::vector<Tile> tiles;
  for (int64_t threads : {128, 256})
    for (int64_t unroll : {1, 2})
      tiles.push_back({{"threads", threads}, {"unroll", unroll}, {"vec", vec}});
  return tiles;
}

static bool isSoundMap(const Op &op, const Tile &tile) {
  int64_t widest = setting(mapConfigurations(op, Target(), {}).front(), "vec"), vec = setting(tile, "vec");
  return isPowerOfTwo(vec) && vec <= widest && setting(tile, "threads") % 32 == 0 &&
         setting(tile, "unroll") <= mostUnroll;
}

static Launch launchMap(const Op &op, const Tile &tile) {
  Expr perBlock(setting(tile, "threads") * setting(tile, "unroll") * setting(tile, "vec"));
  return {.grid = {ceilDiv(walkedValue(op).type.elements(), perBlock), Expr(1), Expr(1)},
          .threads = setting(tile, "threads")};
}

static double estimateMap(const Op &op, const Tile &tile, const Target &target, const DimBinding &dims) {
  int64_t perBlock = setting(tile, "threads") * setting(tile, "unroll") * setting(tile, "vec");
  double blocks =
      std::ceil(static_cast<double>(valueAt(walkedValue(op).type.elements(), dims)) / static_cast<double>(perBlock));
  return estimateStreaming(op, blocks, setting(tile, "threads"), perBlock * 4, target, dims);
}

const KernelFamily mapFamily = {
    .name = "map",
    .summary = "one function of every element: pointwise and layout ops, the embedding",
    .header = "elementwise/map.cuh",
    .body = "mapElements",
    .form = KernelForm::Map,
    .accepts = acceptsMap,
    .configurations = mapConfigurations,
    .isSound = isSoundMap,
    .order = [](const Op &, const Tile &) { return AttributeMap(); }, // nothing is added
    .launch = launchMap,
    .estimate = estimateMap,
};

} // namespace kiln
