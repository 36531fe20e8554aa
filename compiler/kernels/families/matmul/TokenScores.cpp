// Log-probabilities of tokens and the best tokens: of logits in memory, and of those that a product leaves in
// registers.
#include "kernels/families/matmul/TokenScores.h"

#include "kernels/cost/BlockCost.h"
#include "kernels/cost/Problem.h"
#include "kernels/cost/Work.h"
#include "kernels/families/Families.h"
#include "kernels/families/matmul/WgmmaOperands.h"
#include "ops/Region.h"

namespace kiln {

bool isScore(const Op &op) { return op.is(OpKind::logProbability) || op.is(OpKind::argmax); }

std::optional<Dim> otherLogits(const Function &function, int64_t vocabulary) {
  std::optional<Dim> other;
  walk(function.body, [&](const Op &op) {
    if (isScore(op) && !other && !(op.operand(0)->type.lastDim() == Dim(vocabulary)))
      other = op.operand(0)->type.lastDim();
  });
  return other;
}

bool hasScoredProduct(const Op &op) {
  return op.region() && anchor(op)->is(OpKind::matmul) &&
         llvm::any_of(op.region()->ops(), [](const auto &inner) { return isScore(*inner); });
}

/// Takes one op that scores. False: the scores have it already, or it does not fit them.
static bool takeScore(TokenScores &scores, const Op &op) {
  if (scores.logits && scores.logits != op.operand(0))
    return false;
  scores.logits = op.operand(0);
  const Op **place = &scores.best;
  if (op.is(OpKind::logProbability)) {
    const Op *chooser = op.operand(1)->definingOp();
    bool isOfBest = scores.best && chooser == scores.best;
    if (!isOfBest && chooser && op.parentOp() && chooser->parentOp() == op.parentOp())
      return false;
    place = isOfBest ? &scores.ofBest : &scores.ofTarget;
  }
  if (*place)
    return false;
  *place = &op;
  return true;
}

std::optional<TokenScores> tokenScores(const Op &op) {
  TokenScores scores;
  if (!op.region()) {
    if (!isScore(op) || !takeScore(scores, op))
      return std::nullopt;
  } else {
    for (const auto &inner : op.region()->ops())
      if (isScore(*inner) ? !takeScore(scores, *inner) : scores.logits && !inner->has(Trait::Terminator))
        return std::nullopt;
    auto isYieldedScore = [](const Value *value) { return value->definingOp() && isScore(*value->definingOp()); };
    if (!scores.logits || !llvm::all_of(op.region()->terminator()->operands(), isYieldedScore))
      return std::nullopt;
  }
  return scores.logits->type.lastDim().asConstant() ? std::optional(scores) : std::nullopt;
}

//===----------------------------------------------------------------------===//
// score_rows
//===----------------------------------------------------------------------===//

static bool acceptsScoreRows(const Op &op, const Target &, const DimBinding &) {
  std::optional<TokenScores> scores = tokenScores(op);
  const Op *producer = scores ? scores->logits->definingOp() : nullptr;
  return scores && (!producer || producer->parentOp() != &op) && (!op.region() || isScore(*op.region()->ops().front()));
}

static std::vector<Tile> scoreRowsConfigurations(const Op &, const Target &, const DimBinding &) {
  std::vector<Tile> tiles;
  for (int64_t threads : {256, 512})
    tiles.push_back({{"threads", threads}, {"unroll", 8}});
  return tiles;
}

static double estimateScoreRows(const Op &op, const Tile &tile, const Target &target, const DimBinding &dims) {
  const Type &logits = tokenScores(op)->logits->type;
  BlockCost cost;
  cost.blocks = static_cast<double>(valueAt(rowCount(logits), dims));
  cost.threads = setting(tile, "threads");
  cost.memoryBytes = bytesMovedAt(op, dims);
  cost.bytesInFlight = cost.threads * setting(tile, "unroll") * dtypeSize(logits.dtype);
  return estimateSeconds(cost, target);
}

const KernelFamily scoreRowsFamily = {
    .name = "score_rows",
    .summary = "log-probabilities of tokens and the best token of rows of logits, a block a row",
    .header = "norm/score_rows.cuh",
    .body = "scoreRows",
    .form = KernelForm::ScoreRows,
    .accepts = acceptsScoreRows,
    .configurations = scoreRowsConfigurations,
    .isSound = [](const Op &,
                  const Tile &tile) { return setting(tile, "threads") % 32 == 0 && setting(tile, "unroll") <= 32; },
    .launch = [](const Op &op, const Tile &tile) -> Launch {
      return {.grid = {rowCount(tokenScores(op)->logits->type), Expr(1), Expr(1)},
              .threads = setting(tile, "threads"),
              .staticShared = 32 * 16}; // a score for each warp
    },
    .estimate = estimateScoreRows,
};

//===----------------------------------------------------------------------===//
// score_wgmma, score_mma
//===----------------------------------------------------------------------===//

/// Whether the scored logits are the product of the region, without its padding, and nothing else.
static bool scoresProductAlone(const Op &op) {
  std::optional<TokenScores> scores = tokenScores(op);
  if (!scores)
    return false;
  const Op &product = *anchor(op);
  const Op *producer = scores->logits->definingOp();
  if (producer && producer->is(OpKind::slice) && product.result()->hasOneUse())
    producer = producer->operand(0)->definingOp();
  auto isPart = [&](const auto &inner) {
    return inner.get() == &product || inner->is(OpKind::slice) || isScore(*inner) || inner->has(Trait::Terminator);
  };
  return producer == &product && llvm::all_of(op.region()->ops(), isPart);
}

constexpr int64_t scoreBytes = 16;

/// Bytes of the parts: a score for each row and each stretch of `cols` columns, of `perTile` a tile.
static Expr partBytes(const Op &op, const Tile &tile, int64_t perTile) {
  MatmulProblem problem = matmulProblem(op);
  int64_t tiles = valueAt(ceilDiv(problem.cols, Expr(setting(tile, "tile_n"))), {});
  return problem.rows * Expr(tiles * perTile * scoreBytes);
}

static Expr rowTiles(const Op &op, const Tile &tile) {
  return ceilDiv(matmulProblem(op).rows, Expr(setting(tile, "tile_m")));
}

/// The time of the product, whose scores take about as long as its stores would, and of the parts, which are written
/// and read.
template <const KernelFamily &product, const KernelFamily &family>
static double estimateScore(const Op &op, const Tile &tile, const Target &target, const DimBinding &dims) {
  double parts = static_cast<double>(valueAt(family.workspace(op, tile), dims));
  return product.estimate(op, tile, target, dims) + 2 * parts / target.l2Rate;
}

static bool acceptsWgmmaScore(const Op &op, const Target &target, const DimBinding &upper) {
  return scoresProductAlone(op) && wgmmaTiledFamily.accepts(op, target, upper);
}

/// Tiles of a stripe of rows.
static int64_t stripeTiles(const Op &op, const Tile &tile) {
  return valueAt(ceilDiv(matmulProblem(op).cols, Expr(setting(tile, "tile_n"))), {});
}

/// Bytes of the parts: a score for each row, stretch and team.
static Expr wgmmaScoreParts(const Op &op, const Tile &tile) {
  int64_t teams = std::min(setting(tile, "teams"), stripeTiles(op, tile));
  return matmulProblem(op).rows * Expr(setting(tile, "stretches") * teams * scoreBytes);
}

/// Whether every team has a tile of each stretch, or there is one stretch; and threads have 8 neighbouring columns.
static bool isSoundWgmmaScore(const Op &op, const Tile &tile) {
  int64_t stretches = setting(tile, "stretches");
  return wgmmaTiledFamily.isSound(op, tile) && setting(tile, "tile_n") % permutedRows == 0 &&
         clusterBlocks(tile) == 1 && setting(tile, "ranges") == 1 &&
         (stretches == 1 || stretches * setting(tile, "teams") <= stripeTiles(op, tile));
}

static std::vector<Tile> wgmmaScoreConfigurations(const Op &op, const Target &target, const DimBinding &upper) {
  std::vector<Tile> tiles;
  auto add = [&](Tile tile, int64_t stretches) {
    tile.insert({"stretches", stretches});
    bool isSound = isSoundWgmmaScore(op, tile);
    if (isSound)
      tiles.push_back(std::move(tile));
    return isSound;
  };
  // With fewer of them, some numbers of rows leave blocks idle.
  constexpr int64_t leastStretches = 16;
  for (const Tile &product : wgmmaTiledFamily.configurations(op, target, upper)) {
    if (!add(product, leastStretches))
      add(product, 1);
    for (int64_t stretches : {32, 64, 128})
      add(product, stretches);
  }
  return tiles;
}

/// The scores of a row are added up tile by tile by each team, stretch by stretch.
static AttributeMap orderOfWgmmaScore(const Op &op, const Tile &tile) {
  AttributeMap order = wgmmaTiledFamily.order(op, tile);
  for (StringRef name : {"stretches", "teams", "tile_n"})
    order.insert({name.str(), setting(tile, name)});
  return order;
}

/// The product's time, but a block has whole stretches of a stripe, so that some have more tiles than others.
static double estimateWgmmaScore(const Op &op, const Tile &tile, const Target &target, const DimBinding &dims) {
  MatmulProblem problem = matmulProblem(op);
  int64_t stripes = valueAt(ceilDiv(problem.rows, Expr(setting(tile, "tile_m"))), dims);
  int64_t stretches = setting(tile, "stretches"), tiles = stripes * stripeTiles(op, tile);
  int64_t blocks = std::min(setting(tile, "blocks"), tiles);
  int64_t parts = std::max<int64_t>(1, std::min(blocks / stripes, stretches));
  auto most = static_cast<double>(llvm::divideCeil(stripes * parts, blocks) * llvm::divideCeil(stretches, parts)) *
              static_cast<double>(stripeTiles(op, tile)) / static_cast<double>(stretches);
  double share = std::max(1.0, most / static_cast<double>(llvm::divideCeil(tiles, blocks)));
  return share * estimateScore<wgmmaTiledFamily, wgmmaScoreFamily>(op, tile, target, dims);
}

const KernelFamily wgmmaScoreFamily = {
    .name = "score_wgmma",
    .summary = "log-probabilities of tokens and the best token, of a product by wgmma whose logits are not stored",
    .header = "gemm/wgmma_score.cuh",
    .body = "wgmmaScore",
    .form = KernelForm::TensorScore,
    .waitsItself = true,
    .accepts = acceptsWgmmaScore,
    .configurations = wgmmaScoreConfigurations,
    .isSound = isSoundWgmmaScore,
    .order = orderOfWgmmaScore,
    .launch = [](const Op &op, const Tile &tile) { return wgmmaTiledFamily.launch(op, tile); },
    .estimate = estimateWgmmaScore,
    .workspace = wgmmaScoreParts,
    .counters = [](const Op &op,
                   const Tile &tile) { return rowTiles(op, tile) * Expr(4 * setting(tile, "consumers")); },
    .maps = [](const Op &op, const Tile &tile) { return wgmmaTiledFamily.maps(op, tile); },
};

/// Columns of a warp: with fewer of them, the parts would take more memory than the rest of a pass.
constexpr int64_t scoredCols = 64;

static std::vector<Tile> mmaScoreConfigurations(const Op &op, const Target &target, const DimBinding &upper) {
  std::vector<Tile> tiles = mmaTiledFamily.configurations(op, target, upper);
  llvm::erase_if(tiles,
                 [](const Tile &tile) { return setting(tile, "tile_n") / setting(tile, "warps_n") < scoredCols; });
  return tiles;
}

/// A warp adds up the scores of its columns of a tile, then those of all warps and tiles are.
static AttributeMap orderOfMmaScore(const Op &op, const Tile &tile) {
  AttributeMap order = mmaTiledFamily.order(op, tile);
  order.insert({"score_cols", setting(tile, "tile_n") / setting(tile, "warps_n")});
  return order;
}

static Launch launchMmaScore(const Op &op, const Tile &tile) {
  Launch launch = mmaTiledFamily.launch(op, tile);
  launch.dynamicShared += 128; // MmaTiledScoreStorage: a flag with its alignment
  return launch;
}

const KernelFamily mmaScoreFamily = {
    .name = "score_mma",
    .summary = "log-probabilities of tokens and the best token, of a product by mma.sync whose logits are not stored",
    .header = "gemm/mma_tiled_score.cuh",
    .body = "mmaTiledScore",
    .form = KernelForm::TensorScore,
    .waitsItself = true,
    .accepts =
        [](const Op &op, const Target &target, const DimBinding &upper) {
          return scoresProductAlone(op) && mmaTiledFamily.accepts(op, target, upper) &&
                 !acceptsWgmmaScore(op, target, upper);
        },
    .configurations = mmaScoreConfigurations,
    .isSound = [](const Op &op, const Tile &tile) { return mmaTiledFamily.isSound(op, tile); },
    .order = orderOfMmaScore,
    .launch = launchMmaScore,
    .estimate = estimateScore<mmaTiledFamily, mmaScoreFamily>,
    .workspace = [](const Op &op, const Tile &tile) { return partBytes(op, tile, setting(tile, "warps_n")); },
    .counters = rowTiles,
};

} // namespace kiln
