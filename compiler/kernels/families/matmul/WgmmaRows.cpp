// Matrix products of the wgmma family for few rows: decode, with a batch or not, and short prompts.
#include "kernels/families/matmul/WgmmaRows.h"
#include "kernels/cost/Problem.h"
#include "kernels/families/Families.h"
#include "kernels/families/Halves.h"
#include "kernels/families/Inbox.h"
#include "kernels/families/matmul/DepthCut.h"
#include "kernels/families/matmul/WgmmaOperands.h"
#include "ops/Region.h"
#include "support/model/TargetName.h"

#include <cmath>

namespace kiln {

/// The rows of an instruction, and so the most of a block. With more, larger tiles read the weight less often.
constexpr int64_t instructionRows = 64;
/// Stages that hide the latency of memory.
constexpr int64_t leastStages = 4;

namespace {

/// The settings of a tile.
struct RowsBlock {
  int64_t rows, n, turns, parts, groups, chains, stages, rowStages, shared;

  explicit RowsBlock(const Tile &tile)
      : rows(setting(tile, "rows")), n(setting(tile, "tile_n")), turns(setting(tile, "turns")),
        parts(setting(tile, "parts")), groups(setting(tile, "groups")), chains(setting(tile, "chains")),
        stages(setting(tile, "stages")), rowStages(setting(tile, "row_stages")), shared(setting(tile, "shared")) {}

  int64_t ranges() const { return parts * groups; }
  int64_t threads() const { return 128 * (groups + 1); }
  /// Of a product with so many columns.
  int64_t blocks(int64_t cols) const { return static_cast<int64_t>(llvm::divideCeil(cols, n * turns)) * parts; }
  /// Whether it can exchange sums with other ranks: all blocks run at once, each thread has one vector of 8 columns.
  bool canExchange(int64_t cols) const {
    const int64_t ownRows = static_cast<int64_t>(llvm::divideCeil(rows, parts)), rowThreads = n / inboxVec;
    return blocks(cols) <= (parts > 2 ? mostClusteredExchangeBlocks : mostExchangeBlocks) && turns == 1 &&
           128 * groups <= inboxThreads && ownRows <= 128 * groups / rowThreads && cols % inboxVec == 0;
  }
  /// Whether a thread has registers for the sums of its chains.
  bool hasRegisters() const { return chains * n / 2 + 56 <= std::min<int64_t>(255, 65536 / threads()); }
  /// As the template lays it out: the stages, the sums of all ranges of the block's own rows, 16 bytes for each of
  /// these, and barriers of 8 bytes; three more for operands of rows that blocks share.
  int64_t sharedBytes(bool mails) const {
    auto up = [](int64_t bytes, int64_t to) { return static_cast<int64_t>(llvm::alignTo(bytes, to)); };
    int64_t sums = static_cast<int64_t>(llvm::divideCeil(rows, parts)) * (ranges() * (n + 4) * 4 + 16);
    return std::max(shared, up(groups * (rowStages * rows + stages * n) * stepBytes + sums +
                                   (groups * (2 * stages + 1) + (mails ? 6 : 3)) * 8,
                               1024));
  }
};

} // namespace

/// Whether every step is of one row's elements only, so that one copy can bring the rows' elements of several steps.
static bool hasWholeSteps(const Op &op) {
  const Type &weight = anchor(op)->operand(1)->type;
  return *weight.lastDim().asConstant() * dtypeSize(weight.dtype) % stepBytes == 0;
}

static bool acceptsWgmmaRows(const Op &op, const Target &target, const DimBinding &upper) {
  if (!acceptsMappedProduct(op, target))
    return false;
  if (sumsParts(op))
    return canSumParts(op, target);
  const Type &out = anchor(op)->result()->type;
  return hasFewTokens(op, out) || valueAt(rowCount(out), upper) <= instructionRows;
}

/// Whether the template runs the tile in a kernel that exchanges nothing.
static bool isLegalWgmmaRows(const Op &op, const Tile &tile) {
  RowsBlock block(tile);
  if (block.ranges() <= 0)
    return false;
  int64_t steps = stepsOfDepth(op), most = static_cast<int64_t>(llvm::divideCeil(steps, block.ranges()));
  bool isLegal = block.parts > 0 && block.parts <= maxClusterBlocks && block.groups > 0 && block.groups <= 4 &&
                 (block.rows == 8 || block.rows == 16 || block.rows == 32 || block.rows == instructionRows) &&
                 block.n > 0 && block.n <= 256 && block.n % permutedRows == 0;
  return isLegal && block.chains > 0 && block.turns > 0 && (block.turns == 1 || block.ranges() == 1) &&
         block.ranges() * block.chains <= steps && block.hasRegisters() && block.stages > 0 && block.stages <= most &&
         (block.rowStages == block.stages || block.rowStages == most) &&
         (block.rows == 8 || block.groups * block.stages * block.n >= instructionRows - block.rows);
}

static bool canExchangeIfItMust(const Op &op, const Tile &tile) {
  return !sumsParts(op) || RowsBlock(tile).canExchange(colsOfProduct(op));
}

static bool isSoundWgmmaRows(const Op &op, const Tile &tile) {
  return isLegalWgmmaRows(op, tile) && canExchangeIfItMust(op, tile);
}

static double secondsOf(const Op &op, const Tile &tile, const Target &target, double rows, double filledShare) {
  const KernelTimes::WgmmaRows &times = target.times.wgmmaRows;
  RowsBlock block(tile);
  const Type &weight = anchor(op)->operand(1)->type;
  double cols = static_cast<double>(*weight.shape[0].asConstant()), steps = static_cast<double>(stepsOfDepth(op));
  auto n = static_cast<double>(block.n), groups = static_cast<double>(block.groups);
  double blockRows = std::min(std::ceil(rows / 8) * 8, static_cast<double>(block.rows));
  double blocks = std::ceil(cols / (n * static_cast<double>(block.turns))) * static_cast<double>(block.parts) *
                  std::ceil(rows / blockRows);
  double perMultiprocessor = std::ceil(blocks / (target.multiprocessors * filledShare));
  double range = std::ceil(steps / static_cast<double>(block.ranges()));
  double reading = cols * steps * stepBytes / target.memoryRate;
  // Rows that a later tile of the block reads again come while its weight does.
  double rowsBytes = perMultiprocessor * range * groups * blockRows * stepBytes;
  double exchange =
      block.parts == 1 ? 0 : times.exchange + perMultiprocessor * groups * blockRows * n * 4 / times.exchangeRate;
  // The first steps add up; later ones run while the weight arrives, most of the time.
  double steppedOn = (std::min(range, 12.0) + std::max(0.0, range - 12) / 4) * times.step;
  return target.launchSeconds + times.ends + reading + rowsBytes / times.rowsRate + steppedOn + exchange;
}

static double estimateWgmmaRows(const Op &op, const Tile &tile, const Target &target, const DimBinding &dims) {
  // Clusters of more blocks than two leave multiprocessors empty, so that others get two blocks of a full grid.
  const double filledShare = RowsBlock(tile).parts > 2 ? target.times.wgmmaTiled.clusteredShare : 1;
  return secondsOf(op, tile, target, static_cast<double>(valueAt(matmulProblem(op).rows, dims)), filledShare);
}

/// Tiles that a block may have: one, or, if the block has their whole depth, as many as give each multiprocessor a
/// block. Then a step of fewer than 64 columns takes the warpgroup longer than the memory.
static SmallVector<int64_t, 2> turnsOf(const Op &op, const Target &target, int64_t n, int64_t ranges) {
  const int64_t cols = colsOfProduct(op);
  const auto turns = static_cast<int64_t>(llvm::divideCeil(llvm::divideCeil(cols, n), target.multiprocessors));
  return ranges > 1 || n < 64 || turns == 1 ? SmallVector<int64_t, 2>{1} : SmallVector<int64_t, 2>{1, turns};
}

/// The tile with as many stages as fit, if any do.
static std::optional<Tile> tileOf(const Op &op, const Target &target, Tile tile) {
  const int64_t rows = setting(tile, "rows"), n = setting(tile, "tile_n"), groups = setting(tile, "groups");
  const int64_t half = target.sharedPerBlock / 2;
  const auto most = static_cast<int64_t>(llvm::divideCeil(stepsOfDepth(op), setting(tile, "parts") * groups));
  // Rows at once, if that leaves memory for weights on the way: otherwise they come with the weight. A block of several
  // tiles keeps rows that take half of the memory, since it would read them anew for each.
  const int64_t mostOfRows = setting(tile, "turns") > 1 ? half : target.sharedPerBlock / 4;
  const bool isWhole = hasWholeSteps(op) && groups * most * rows * stepBytes <= mostOfRows;
  // What a block has room for is read before its turn comes. If all of its weight fits, a multiprocessor has one
  // block: with more, those of kernels that wait crowd where those that work should be (a step of 124M took 13 %
  // longer with three, 5 % with two). Otherwise two, of this kernel and the next.
  const bool isSmall = groups * most * (rows + n) * stepBytes <= half;
  auto fits = [&](int64_t stages, int64_t bytes) {
    tile.insert_or_assign("stages", stages);
    tile.insert_or_assign("row_stages", isWhole ? most : stages);
    return RowsBlock(tile).sharedBytes(rowMailBytes(op) > 0) <= bytes;
  };
  // Of several ranks each product is short beside what it waits for: a block takes more, for weight that comes
  // meanwhile. If it waits for the other ranks, too, it takes still more, if that is enough for all of its weight.
  const bool waits = canHideExchanges(op) && hasFewTokens(op, anchor(op)->result()->type);
  const int64_t forMore = target.sharedPerBlock * 7 / 10, forAll = target.sharedPerBlock * 3 / 4;
  tile.insert_or_assign("shared", 0);
  const bool takesWhole = waits && sumsParts(op) && fits(most, forAll);
  // It takes more, too, if half of the memory has room for some stages but not for half of the weight beside rows that
  // come at once: a step of 1558M takes 1309 instead of 1338 us with 16 rows, 1128 instead of 1145 with 8; with all of
  // the memory 1311 and 1152.
  const bool isScarce = isWhole && setting(tile, "turns") == 1 && fits(std::min<int64_t>(most, leastStages), half) &&
                        !fits(most / 2, half);
  const int64_t shared = isSmall             ? target.sharedPerBlock * 2 / 3
                         : takesWhole        ? forAll
                         : waits || isScarce ? forMore
                                             : half;
  tile.insert_or_assign("shared", shared);
  // Half of the memory must have some stages, or all of it is taken. A block of several tiles has no other beside it.
  const bool takesAll = setting(tile, "turns") > 1 || !fits(std::min<int64_t>(most, leastStages), shared);
  int64_t stages = most;
  while (stages > 0 && !fits(stages, takesAll ? target.sharedPerBlock : shared))
    --stages;
  return stages > 0 && isLegalWgmmaRows(op, tile) ? std::optional(std::move(tile)) : std::nullopt;
}

/// Every tile with so many rows a block and chains a range.
static std::vector<Tile> tilesOf(const Op &op, const Target &target, int64_t rows, int64_t chains) {
  std::vector<Tile> tiles;
  for (int64_t n : {32, 64, 96, 128})
    for (int64_t parts : {1, 2, 4, 8})
      for (int64_t groups : {1, 2}) {
        // Where sums of ranks are behind the product, clusters of eight took 9 % longer than of four for 8 rows, 3 %
        // for 16, and 1 % less for 32.
        if (parts > 4 && sumsParts(op))
          continue;
        for (int64_t turns : turnsOf(op, target, n, parts * groups))
          if (auto tile = tileOf(op, target,
                                 {{"chains", chains},
                                  {"groups", groups},
                                  {"parts", parts},
                                  {"rows", rows},
                                  {"tile_n", n},
                                  {"turns", turns}}))
            tiles.push_back(std::move(*tile));
      }
  return tiles;
}

/// The number of ranges that is best for 16 rows.
static int64_t rangesOf(const Op &op, const Target &target) {
  constexpr int64_t typicalRows = 16;
  std::vector<Tile> tiles = tilesOf(op, target, typicalRows, 1);
  // So few rows run in warps without clusters (gemv_mma_warps), in the same order.
  auto seconds = [&](const Tile &tile) { return secondsOf(op, tile, target, typicalRows, /*filledShare=*/1); };
  auto best = std::min_element(tiles.begin(), tiles.end(),
                               [&](const Tile &a, const Tile &b) { return seconds(a) < seconds(b); });
  return RowsBlock(*best).ranges();
}

DepthCut cutOfFewTokens(const Op &op, const Target &target) {
  // With this many columns, warps need not share the depth.
  const int64_t manyCols = 128 * target.multiprocessors;
  if (*anchor(op)->operand(1)->type.shape[0].asConstant() >= manyCols)
    return {};
  // A chain of two steps takes no longer than other parts of a kernel's latency; a thread has registers for three.
  constexpr int64_t fewSteps = 2, mostChains = 3;
  int64_t ranges = rangesOf(op, target);
  return {ranges, std::clamp<int64_t>(stepsOfDepth(op) / ranges / fewSteps, 1, mostChains)};
}

static std::vector<Tile> wgmmaRowsConfigurations(const Op &op, const Target &target, const DimBinding &upper) {
  int64_t rows = std::clamp<int64_t>(static_cast<int64_t>(llvm::PowerOf2Ceil(valueAt(matmulProblem(op).rows, upper))),
                                     8, instructionRows);
  // Prompts have an order of their own, which choose-tiles chooses.
  if (tokensOfRows(op))
    return tilesOf(op, target, rows, /*chains=*/1);
  bool isFew = hasFewTokens(op, anchor(op)->result()->type);
  DepthCut cut = isFew ? cutOfFewTokens(op, target) : DepthCut{.ranges = rangesOf(op, target)};
  std::vector<Tile> tiles = tilesOf(op, target, rows, cut.chains);
  llvm::erase_if(tiles, [&](const Tile &tile) {
    return RowsBlock(tile).ranges() != cut.ranges || !canExchangeIfItMust(op, tile);
  });
  return tiles;
}

bool canSumParts(const Op &product, const Target &target) {
  const Type &out = anchor(product)->result()->type;
  const DimBinding upper = upperBounds(product);
  if (!acceptsMappedProduct(product, target) || !hasFewTokens(product, out) ||
      valueAt(rowCount(out), upper) > instructionRows)
    return false;
  return llvm::any_of(wgmmaRowsConfigurations(product, target, upper),
                      [&](const Tile &tile) { return RowsBlock(tile).canExchange(colsOfProduct(product)); });
}

static AttributeMap orderOfWgmmaRows(const Op &, const Tile &tile) {
  RowsBlock block(tile);
  return DepthCut{block.ranges(), block.chains}.order();
}

static Launch launchWgmmaRows(const Op &op, const Tile &tile) {
  RowsBlock block(tile);
  MatmulProblem problem = matmulProblem(op);
  return {.grid = {ceilDiv(problem.cols, Expr(block.n * block.turns)) * Expr(block.parts),
                   ceilDiv(problem.rows, Expr(block.rows)), Expr(1)},
          .threads = block.threads(),
          .dynamicShared = block.sharedBytes(rowMailBytes(op) > 0),
          .cluster = block.parts};
}

/// Whether one copy brings the rows of a range, as in the template.
static bool copiesRowsAtOnce(const Op &op, const RowsBlock &block) {
  return hasWholeSteps(op) &&
         block.rowStages == static_cast<int64_t>(llvm::divideCeil(stepsOfDepth(op), block.ranges()));
}

static std::vector<OperandMap> mapsOfWgmmaRows(const Op &op, const Tile &tile) {
  RowsBlock block(tile);
  OperandMap rows = mapOfLeft(op, block.rows);
  if (copiesRowsAtOnce(op, block)) {
    Expr step = rows.box[0];
    rows.extents = {step, rows.extents[1], Expr(stepsOfDepth(op))};
    rows.strides = {rows.strides[0], Expr(stepBytes)};
    rows.box.push_back(Expr(block.rowStages));
  }
  return {std::move(rows), mapOfWeight(op, block.n)};
}

const KernelFamily wgmmaRowsFamily = {
    .name = "gemv_wgmma",
    .summary = "matrix product of few rows in the tensor cores of Hopper: the weight streamed by TMA",
    .header = "gemv/wgmma_rows.cuh",
    .body = "wgmmaRows",
    .form = KernelForm::TensorMatmul,
    .waitsItself = true,
    .readsAhead = true,
    .rowVectors = 8,
    .accepts = acceptsWgmmaRows,
    .configurations = wgmmaRowsConfigurations,
    .isSound = isSoundWgmmaRows,
    .order = orderOfWgmmaRows,
    // Block b of a rank exchanges with block b of the others, along columns alone.
    .mostRows = [](const Op &op, const Tile &tile) { return sumsParts(op) ? RowsBlock(tile).rows : INT64_MAX; },
    .launch = launchWgmmaRows,
    .estimate = estimateWgmmaRows,
    .maps = mapsOfWgmmaRows,
    .mailboxes = [](const Op &op, const Tile &) { return rowMailBytes(op); },
    .inbox = [](const Op &op, const Tile &tile) { return inboxBytes(op, RowsBlock(tile).blocks(colsOfProduct(op))); },
};

} // namespace kiln
