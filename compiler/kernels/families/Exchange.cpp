// Kernels that exchange values with other ranks: sums and shares.
#include "kernels/cost/BlockCost.h"
#include "kernels/cost/Problem.h"
#include "kernels/cost/Work.h"
#include "kernels/families/Families.h"
#include "kernels/families/Halves.h"
#include "kernels/families/Inbox.h"
#include "ops/Region.h"

namespace kiln {

int64_t inboxBytes(const Op &op, int64_t blocks) {
  int64_t ranks = op.parent()->function()->module().ranks();
  int64_t words = 2 * ranks * inboxThreads * inboxVec * (inboxWordBytes + inboxBitsBytes),
          counts = 4 * (inboxThreads + 2 * ranks);
  return blocks * static_cast<int64_t>(llvm::alignTo(static_cast<uint64_t>(words + counts), 16));
}

static bool isStatistic(const Op &op) {
  return op.is(OpKind::groupMean) || op.is(OpKind::groupSquares) || op.is(OpKind::rowMean) || op.is(OpKind::rowRstd);
}

/// Whether the result of a sum of all ranks comes with statistics of its rows.
static bool handsOutRows(const Op &op) { return op.region() && findInRegion(op, OpKind::rowRstd); }

/// Whether the op is an exchange, or a sum of all ranks with pointwise ops of its elements behind it, whose result may
/// come with statistics of groups of columns or of rows.
static bool isExchange(const Op &op) {
  const Op &exchange = *anchor(op);
  if (!exchange.has(Trait::Exchange) || !exchange.operand(0)->type.lastDim().asConstant())
    return false;
  auto isFused = [&](const auto &inner) {
    return inner.get() == &exchange || inner->has(Trait::Pointwise) || inner->has(Trait::Terminator) ||
           isStatistic(*inner);
  };
  auto isMore = [](const Value *yielded) { return !isStatistic(*yielded->definingOp()); };
  return !op.region() || (exchange.is(OpKind::allReduce) && op.region()->ops().front().get() == &exchange &&
                          llvm::all_of(op.region()->ops(), isFused) &&
                          llvm::count_if(op.region()->terminator()->operands(), isMore) == 1);
}

static bool acceptsExchange(const Op &op, const Target &, const DimBinding &) {
  return isExchange(op) && !handsOutRows(op);
}

static const Type &exchangedType(const Op &op) { return anchor(op)->operand(0)->type; }

static std::vector<Tile> exchangeConfigurations(const Op &op, const Target &, const DimBinding &) {
  // The elements of a thread lie in one row; those of a group belong to one thread.
  int64_t most = usesGroups(op) ? groupColumns : 4;
  return {{{"blocks", mostExchangeBlocks},
           {"threads", inboxThreads},
           {"vec", widestVector(*exchangedType(op).lastDim().asConstant(), most)}}};
}

/// What all templates require of a tile; and those with vectors; and of these, those that load several at once.
static bool isSoundLaunch(const Tile &tile) {
  int64_t threads = setting(tile, "threads"), blocks = setting(tile, "blocks");
  return blocks >= 1 && blocks <= mostExchangeBlocks && threads % 32 == 0;
}
static bool isSound(const Op &op, const Tile &tile) {
  int64_t vec = setting(tile, "vec");
  return isSoundLaunch(tile) && isPowerOfTwo(vec) && vec <= inboxVec &&
         *exchangedType(op).lastDim().asConstant() % vec == 0;
}
static bool isSoundUnrolled(const Op &op, const Tile &tile) {
  const int64_t threads = setting(tile, "threads"), unroll = setting(tile, "unroll");
  return isSound(op, tile) && threads >= 64 && threads <= 1024 && unroll >= 1 && unroll <= 8;
}

static bool isSoundExchange(const Op &op, const Tile &tile) {
  return isSound(op, tile) && setting(tile, "threads") <= inboxThreads &&
         (!usesGroups(op) || setting(tile, "vec") == groupColumns);
}

static Launch launchExchange(const Op &op, const Tile &tile) {
  Expr perBlock(setting(tile, "threads") * setting(tile, "vec"));
  return {
      .grid = {min(ceilDiv(exchangedType(op).elements(), perBlock), Expr(setting(tile, "blocks"))), Expr(1), Expr(1)},
      .threads = setting(tile, "threads")};
}

/// Seconds of moving the bytes, by so many blocks, each with so many bytes under way.
static double estimateOfBlocks(const Op &op, double blocks, const Tile &tile, int64_t bytesInFlight,
                               const Target &target, const DimBinding &dims) {
  BlockCost cost;
  cost.blocks = std::min(std::ceil(blocks), static_cast<double>(setting(tile, "blocks")));
  cost.threads = setting(tile, "threads");
  cost.memoryBytes = bytesMovedAt(op, dims);
  cost.bytesInFlight = bytesInFlight;
  return estimateSeconds(cost, target);
}

static double estimateExchange(const Op &op, const Tile &tile, const Target &target, const DimBinding &dims) {
  int64_t perBlock = setting(tile, "threads") * setting(tile, "vec");
  double blocks = static_cast<double>(valueAt(exchangedType(op).elements(), dims)) / static_cast<double>(perBlock);
  return estimateOfBlocks(op, blocks, tile, perBlock * inboxWordBytes, target, dims);
}

/// A grid of blocks with so many rows each, and the seconds that it takes.
static Expr blocksOfRows(const Op &op, const Tile &tile, int64_t rows) {
  return min(ceilDiv(rowCount(exchangedType(op)), Expr(rows)), Expr(setting(tile, "blocks")));
}
static double estimateOfRows(const Op &op, const Tile &tile, int64_t rows, int64_t bytesInFlight, const Target &target,
                             const DimBinding &dims) {
  double blocks = static_cast<double>(valueAt(rowCount(exchangedType(op)), dims)) / static_cast<double>(rows);
  return estimateOfBlocks(op, blocks, tile, bytesInFlight, target, dims);
}

static int64_t inboxOfExchange(const Op &op, const Tile &tile) { return inboxBytes(op, setting(tile, "blocks")); }

const KernelFamily exchangeFamily = {
    .name = "exchange",
    .summary = "sums and shares of all ranks, each value written into the inboxes of the others",
    .header = "exchange/exchange.cuh",
    .body = "exchangeElements",
    .form = KernelForm::Exchange,
    .accepts = acceptsExchange,
    .configurations = exchangeConfigurations,
    .isSound = isSoundExchange,
    .order = [](const Op &, const Tile &) { return AttributeMap(); }, // always that of the ranks
    .launch = launchExchange,
    .estimate = estimateExchange,
    .inbox = inboxOfExchange,
};

//===----------------------------------------------------------------------===//
// exchange_rows
//===----------------------------------------------------------------------===//

static int64_t columnsOf(const Op &op) { return *exchangedType(op).lastDim().asConstant(); }

static bool acceptsRows(const Op &op, const Target &, const DimBinding &) {
  return isExchange(op) && handsOutRows(op) && !usesGroups(op) && columnsOf(op) % inboxVec == 0;
}

static std::vector<Tile> rowsConfigurations(const Op &, const Target &, const DimBinding &) {
  return {{{"blocks", mostExchangeBlocks}, {"threads", inboxThreads}}};
}

static bool isSoundRows(const Op &, const Tile &tile) {
  return isSoundLaunch(tile) && setting(tile, "threads") >= 32 && setting(tile, "threads") <= inboxThreads;
}

/// Rows that a block has at a time, as in exchange/rows.cuh.
static int64_t rowsAtOnce(const Op &op, const Tile &tile) {
  return std::max<int64_t>(1, setting(tile, "threads") * inboxVec / columnsOf(op));
}

static Launch launchRows(const Op &op, const Tile &tile) {
  const int64_t rows = rowsAtOnce(op, tile);
  return {.grid = {blocksOfRows(op, tile, rows), Expr(1), Expr(1)},
          .threads = setting(tile, "threads"),
          .staticShared = rows * columnsOf(op) * dtypeSize(op.result(0)->type.dtype)};
}

static double estimateRows(const Op &op, const Tile &tile, const Target &target, const DimBinding &dims) {
  const int64_t rows = rowsAtOnce(op, tile);
  return estimateOfRows(op, tile, rows, rows * columnsOf(op) * inboxWordBytes, target, dims);
}

const KernelFamily exchangeRowsFamily = {
    .name = "exchange_rows",
    .summary = "sums of all ranks by whole rows, with the statistics of these; values go through inboxes",
    .header = "exchange/rows.cuh",
    .body = "exchangeRows",
    .form = KernelForm::ExchangeRows,
    .accepts = acceptsRows,
    .configurations = rowsConfigurations,
    .isSound = isSoundRows,
    .order = [](const Op &, const Tile &) { return AttributeMap(); }, // always that of the ranks
    .launch = launchRows,
    .estimate = estimateRows,
    .inbox = inboxOfExchange,
};

//===----------------------------------------------------------------------===//
// exchange_slices
//===----------------------------------------------------------------------===//

/// Sums of so many elements or more take longer to move than two barriers of all ranks.
constexpr int64_t fewestSliced = int64_t(1) << 19;

/// Vectors of a row that a lane has, at most so many: the template's loops over them are unrolled.
static int64_t vectorsOfLane(const Op &op) {
  return static_cast<int64_t>(llvm::divideCeil(columnsOf(op), 32 * widestVector(columnsOf(op), inboxVec)));
}
constexpr int64_t mostVectorsOfLane = mostColumnsOfWarp / (32 * inboxVec);

static bool acceptsSlices(const Op &op, const Target &target, const DimBinding &upper) {
  // Where there are fewer elements, another family must run the op.
  const bool hasOther = acceptsExchange(op, target, upper) || acceptsRows(op, target, upper);
  return hasOther && anchor(op)->is(OpKind::allReduce) && !usesGroups(op) && vectorsOfLane(op) <= mostVectorsOfLane &&
         valueAt(exchangedType(op).elements(), upper) >= fewestSliced;
}

static int64_t bytesOfParts(const Op &op) { return columnsOf(op) * dtypeSize(exchangedType(op).dtype); }

/// Bytes of the other ranks' parts of a row in shared memory, with their barrier.
static int64_t bytesOfStage(const Op &op) {
  return (op.parent()->function()->module().ranks() - 1) * bytesOfParts(op) + barrierBytes;
}

/// Rows of each warp that are on their way to shared memory: as many as it has room for.
static int64_t stagesOf(const Op &op, const Target &target, int64_t warps) {
  // GPUs before Hopper have no such copies, and the template nothing in their place.
  if (!target.hasClusters || bytesOfParts(op) % 16 != 0)
    return 1;
  return std::clamp<int64_t>((target.sharedPerBlock - 16) / (warps * bytesOfStage(op)), 1, 4);
}

static std::vector<Tile> slicesConfigurations(const Op &op, const Target &target, const DimBinding &) {
  // A lane has registers for so many vectors of its rank's part, what is added to them, and the others' parts; with two
  // ranks, for a whole row of 1600 elements. Results of 16 bits are 16 bytes, which cross the link better than 8: that
  // matters where few blocks do all the work.
  constexpr int64_t threads = 256;
  const int64_t ranks = op.parent()->function()->module().ranks();
  const int64_t unroll = std::min<int64_t>(ranks > 4 ? 1 : ranks > 2 ? 2 : 7, vectorsOfLane(op));
  return {{{"blocks", mostExchangeBlocks},
           {"stages", stagesOf(op, target, threads / 32)},
           {"threads", threads},
           {"unroll", unroll},
           {"vec", widestVector(columnsOf(op), inboxVec)}}};
}

static Launch launchSlices(const Op &op, const Tile &tile) {
  const int64_t warps = setting(tile, "threads") / 32, stages = setting(tile, "stages");
  return {.grid = {blocksOfRows(op, tile, warps), Expr(1), Expr(1)},
          .threads = setting(tile, "threads"),
          .dynamicShared = stages == 1 ? 0 : (warps * stages * bytesOfStage(op) + 15) / 16 * 16,
          .halfBlocks = blocksOfHiddenExchange(op)};
}

static double estimateSlices(const Op &op, const Tile &tile, const Target &target, const DimBinding &dims) {
  const int64_t threads = setting(tile, "threads");
  return estimateOfRows(op, tile, threads / 32, threads * setting(tile, "vec") * inboxWordBytes, target, dims);
}

static bool isSoundSlices(const Op &op, const Tile &tile) {
  // Statistics are added up in the order of the widest vectors.
  const bool isVector = setting(tile, "vec") == widestVector(columnsOf(op), inboxVec);
  return isSoundUnrolled(op, tile) && isVector && (setting(tile, "stages") == 1 || bytesOfParts(op) % 16 == 0);
}

const KernelFamily exchangeSlicesFamily = {
    .name = "exchange_slices",
    .summary =
        "sums of all ranks of large tensors: each rank adds up a share of the rows, from and to the memory of all",
    .header = "exchange/slices.cuh",
    .body = "exchangeSlices",
    .form = KernelForm::ExchangeSlices,
    .accepts = acceptsSlices,
    .configurations = slicesConfigurations,
    .isSound = isSoundSlices,
    .order = [](const Op &, const Tile &) { return AttributeMap(); }, // always that of the ranks
    .launch = launchSlices,
    .estimate = estimateSlices,
    .inbox = inboxOfExchange,
};

//===----------------------------------------------------------------------===//
// exchange_shares
//===----------------------------------------------------------------------===//

/// Shares of so many elements or more take longer to cross the link, each beside a stamp, than two barriers of all
/// ranks: those of the logits of a few rows.
constexpr int64_t fewestShared = int64_t(1) << 17;

static bool acceptsShares(const Op &op, const Target &target, const DimBinding &upper) {
  return op.is(OpKind::allGather) && hasFewTokens(op, op.result()->type) && op.intAttribute("unit", 1) == 1 &&
         acceptsExchange(op, target, upper) && valueAt(exchangedType(op).elements(), upper) >= fewestShared;
}

static std::vector<Tile> sharesConfigurations(const Op &, const Target &, const DimBinding &) {
  // Rows of the whole tensor may begin anywhere: elements that lie side by side fill lines of the link if neighbouring
  // threads have them.
  return {{{"blocks", mostExchangeBlocks}, {"threads", 1024}, {"unroll", 8}, {"vec", 1}}};
}

static Launch launchShares(const Op &op, const Tile &tile) {
  Launch launch = launchExchange(op, tile);
  launch.halfBlocks = blocksOfHiddenExchange(op);
  return launch;
}

const KernelFamily exchangeSharesFamily = {
    .name = "exchange_shares",
    .summary = "shares of all ranks of large tensors, each written to the memory of all",
    .header = "exchange/shares.cuh",
    .body = "exchangeShares",
    .form = KernelForm::ExchangeShares,
    .accepts = acceptsShares,
    .configurations = sharesConfigurations,
    .isSound = isSoundUnrolled,
    .order = [](const Op &, const Tile &) { return AttributeMap(); }, // no sums
    .launch = launchShares,
    .estimate = estimateExchange,
    .inbox = inboxOfExchange,
};

} // namespace kiln
