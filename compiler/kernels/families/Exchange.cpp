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
  int64_t words = 2 * ranks * inboxThreads * inboxVec * inboxWordBytes, counts = 4 * (inboxThreads + 2 * ranks);
  return blocks * static_cast<int64_t>(llvm::alignTo(static_cast<uint64_t>(words + counts), 16));
}

static bool isOfGroups(const Op &op) { return op.is(OpKind::groupMean) || op.is(OpKind::groupSquares); }

/// Whether the op is an exchange, or a sum of all ranks with pointwise ops of its elements behind it, whose result may
/// come with statistics of groups of columns.
static bool acceptsExchange(const Op &op, const Target &, const DimBinding &) {
  const Op &exchange = *anchor(op);
  if (!exchange.has(Trait::Exchange) || !exchange.operand(0)->type.lastDim().asConstant())
    return false;
  auto isFused = [&](const auto &inner) {
    return inner.get() == &exchange || inner->has(Trait::Pointwise) || inner->has(Trait::Terminator) ||
           isOfGroups(*inner);
  };
  auto isMore = [](const Value *yielded) { return !isOfGroups(*yielded->definingOp()); };
  return !op.region() || (exchange.is(OpKind::allReduce) && op.region()->ops().front().get() == &exchange &&
                          llvm::all_of(op.region()->ops(), isFused) &&
                          llvm::count_if(op.region()->terminator()->operands(), isMore) == 1);
}

static const Type &exchangedType(const Op &op) { return anchor(op)->operand(0)->type; }

static std::vector<Tile> exchangeConfigurations(const Op &op, const Target &, const DimBinding &) {
  // The elements of a thread lie in one row; those of a group belong to one thread.
  int64_t most = usesGroups(op) ? groupColumns : 4;
  return {{{"blocks", mostExchangeBlocks},
           {"threads", inboxThreads},
           {"vec", widestVector(*exchangedType(op).lastDim().asConstant(), most)}}};
}

/// What both templates require of a tile.
static bool isSound(const Op &op, const Tile &tile) {
  int64_t threads = setting(tile, "threads"), vec = setting(tile, "vec"), blocks = setting(tile, "blocks");
  return blocks >= 1 && blocks <= mostExchangeBlocks && threads % 32 == 0 && isPowerOfTwo(vec) && vec <= inboxVec &&
         *exchangedType(op).lastDim().asConstant() % vec == 0;
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

static double estimateExchange(const Op &op, const Tile &tile, const Target &target, const DimBinding &dims) {
  int64_t perBlock = setting(tile, "threads") * setting(tile, "vec");
  double blocks = static_cast<double>(valueAt(exchangedType(op).elements(), dims)) / static_cast<double>(perBlock);
  BlockCost cost;
  cost.blocks = std::min(std::ceil(blocks), static_cast<double>(setting(tile, "blocks")));
  cost.threads = setting(tile, "threads");
  cost.memoryBytes = bytesMovedAt(op, dims);
  cost.bytesInFlight = perBlock * inboxWordBytes;
  return estimateSeconds(cost, target);
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
// exchange_slices
//===----------------------------------------------------------------------===//

/// Sums of so many elements or more take longer to move than two barriers of all ranks.
constexpr int64_t fewestSliced = int64_t(1) << 19;

static bool acceptsSlices(const Op &op, const Target &target, const DimBinding &upper) {
  return anchor(op)->is(OpKind::allReduce) && !usesGroups(op) && acceptsExchange(op, target, upper) &&
         valueAt(exchangedType(op).elements(), upper) >= fewestSliced;
}

static std::vector<Tile> slicesConfigurations(const Op &op, const Target &, const DimBinding &) {
  // A thread of so many has registers for 32 elements on the way. Results of 16 bits are 16 bytes, which cross the link
  // better than 8: that matters where few blocks do all the work.
  const int64_t ranks = op.parent()->function()->module().ranks();
  int64_t vec = widestVector(*exchangedType(op).lastDim().asConstant(), ranks > 4 ? 4 : inboxVec);
  return {{{"blocks", mostExchangeBlocks}, {"threads", 1024}, {"unroll", ranks > 2 ? 1 : 2}, {"vec", vec}}};
}

static Launch launchSlices(const Op &op, const Tile &tile) {
  Launch launch = launchExchange(op, tile);
  launch.halfBlocks = blocksOfHiddenExchange;
  return launch;
}

static bool isSoundSlices(const Op &op, const Tile &tile) {
  return isSound(op, tile) && setting(tile, "threads") >= 64 && setting(tile, "unroll") <= 8;
}

const KernelFamily exchangeSlicesFamily = {
    .name = "exchange_slices",
    .summary = "sums of all ranks of large tensors: each rank adds up a slice, from and to the memory of all",
    .header = "exchange/slices.cuh",
    .body = "exchangeSlices",
    .form = KernelForm::ExchangeSlices,
    .accepts = acceptsSlices,
    .configurations = slicesConfigurations,
    .isSound = isSoundSlices,
    .order = [](const Op &, const Tile &) { return AttributeMap(); }, // always that of the ranks
    .launch = launchSlices,
    .estimate = estimateExchange,
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

const KernelFamily exchangeSharesFamily = {
    .name = "exchange_shares",
    .summary = "shares of all ranks of large tensors, each written to the memory of all",
    .header = "exchange/shares.cuh",
    .body = "exchangeShares",
    .form = KernelForm::ExchangeShares,
    .accepts = acceptsShares,
    .configurations = sharesConfigurations,
    .isSound = isSoundSlices,
    .order = [](const Op &, const Tile &) { return AttributeMap(); }, // no sums
    .launch = launchSlices,
    .estimate = estimateExchange,
    .inbox = inboxOfExchange,
};

} // namespace kiln
