// gather-statistics: the statistics of rows come from the kernel that makes the rows, by groups of columns: a product,
// or the sum of all ranks behind it.
//
//   %x = fused @matmul_bias_residual(%a, %w, %b, %r) {      %x, %means, %squares = fused @…_residual_groups(…) {
//     …                                                       …
//     %x = add %s, %r                                         %x = add %s, %r
//     yield %x                                                %means = group_mean %x {size = 8}
//   }                                                         %squares = group_squares %x, %means
//   %mean, %rstd = fused @row_mean_row_rstd(%x) {…}   ->      yield %x, %means, %squares
//   %y = fused @matmul_norm_bias(%x, …, %mean, %rstd) {     }
//     %mm = matmul %x, %v                                   %y = fused @matmul_norm_bias(%x, …, %means, %squares) {
//     %n  = normalize_product %mm, %mean, %rstd, %s           %mm   = matmul %x, %v
//     …                                                       %mean = row_mean %means
//                                                             %rstd = merged_rstd %squares, %means, %mean {…}
//                                                             %n    = normalize_product %mm, %mean, %rstd, %s
//
// A sum of all ranks over prompts hands out the statistics of whole rows, which its kernels have in registers:
//
//   %x = fused @all_reduce_bias_residual(%p, %b, %r) {      %x, %mean, %rstd = fused @all_reduce_…_statistics(…) {
//     …                                                       …
//     %x = add %s, %r                                 ->      %x    = add %s, %r
//     yield %x                                                %mean = row_mean %x
//   }                                                         %rstd = row_rstd %x, %mean {…}
//   %mean, %rstd = fused @row_mean_row_rstd(%x) {…}           yield %x, %mean, %rstd
//
// So no kernel reads the rows again just for their statistics. A thread or a quad has 8 columns of a row of a product;
// groups of 8 are therefore cheap to make, and they are the same whatever the tiles are. option target: the GPU, as
// graphs/targets/ names it. option prompts: also of prompts. Their kernels have no registers left, so that handing out
// and merging statistics took 1.6 times as long as a kernel that reads the rows for them (124M, 8 × 1024, on an H200).
// fuse-statistics makes that one part of the product.
//
// Refuses: rows that anything but a product in tensor cores of 16 bits or a sum of ranks makes, such as an embedding;
// rows of no multiple of 8 columns; statistics that anything but normalize_product reads.
#include "ir/Builder.h"
#include "kernels/cost/Problem.h"
#include "kernels/families/Families.h"
#include "ops/OpTable.h"
#include "ops/Region.h"
#include "passes/Pass.h"
#include "passes/Rewrite.h"
#include "passes/norm/RowStatistics.h"

namespace kiln {

/// Whether the op is a product in tensor cores.
static bool isTensorProduct(const Op &op, const Target &target) {
  return anchor(op)->is(OpKind::matmul) && wantsNormOutside(op, target) && !fusedNorm(op) &&
         dtypeSize(anchor(op)->operand(1)->type.dtype) == 2;
}

/// Whether a kernel makes the rows that can hand out their statistics.
static bool handsOutStatistics(const Value &rows, const Target &target, bool takesPrompts) {
  const Op *producer = rows.definingOp();
  if (!producer || !producer->region() || dtypeSize(rows.type.dtype) != 2)
    return false;
  bool isFew = hasFewTokens(*producer, rows.type), isSum = anchor(*producer)->is(OpKind::allReduce);
  if (isSum ? !isFew : !(isFew || takesPrompts) || !isTensorProduct(*producer, target))
    return false;
  const Op *last = producer->region()->terminator()->operand(rows.resultIndex())->definingOp();
  std::optional<int64_t> cols = rows.type.lastDim().asConstant();
  return last->parentOp() == producer && (last == anchor(*producer) || last->has(Trait::Pointwise)) &&
         rows.type.shape == anchor(*producer)->result()->type.shape && cols && *cols % groupColumns == 0;
}

/// Yields another value of a region.
static Value *yieldValue(Op &fused, Value *inner) {
  fused.region()->terminator()->addOperand(inner);
  Value *outer = fused.addResult(inner->name, inner->type);
  outer->loc = inner->loc;
  return outer;
}

/// Means and sums of squares of the groups of `rows`, which their producer hands out.
static std::pair<Value *, Value *> addGroups(Value &rows, TakenNames &names) {
  Op &producer = *rows.definingOp();
  Op *yield = producer.region()->terminator();
  Value *inner = yield->operand(rows.resultIndex());
  Builder builder(opTable(), yield);
  builder.loc = inner->definingOp()->loc;
  Value *means = builder.create(OpKind::groupMean, names.unique(withEnding(rows.name, "_means")), {inner},
                                {{"size", groupColumns}});
  Value *squares =
      builder.create(OpKind::groupSquares, names.unique(withEnding(rows.name, "_squares")), {inner, means});
  producer.symbol = regionName(*producer.region());
  return {yieldValue(producer, means), yieldValue(producer, squares)};
}

/// Merges the statistics of groups in front of an op that applies those of rows.
static void merge(Op &apply, const Op &statistics, std::pair<Value *, Value *> groups) {
  const Op &rstd = *statistics.region()->terminator()->operand(1)->definingOp();
  Builder builder(opTable(), &apply);
  builder.loc = rstd.loc;
  Value *mean = builder.create(OpKind::rowMean, statistics.result(0)->name, {groups.first});
  Value *merged = builder.create(OpKind::mergedRstd, statistics.result(1)->name, {groups.second, groups.first, mean},
                                 {{"eps", *rstd.attribute("eps")}, {"size", groupColumns}});
  apply.setOperand(1, mean);
  apply.setOperand(2, merged);
}

/// Whether the rows are the sum of all ranks over prompts, whose kernels have whole rows.
static bool isSumOfPrompts(const Value &rows) {
  const Op *producer = rows.definingOp();
  if (!producer || !anchor(*producer)->is(OpKind::allReduce) || hasFewTokens(*producer, rows.type) ||
      dtypeSize(rows.type.dtype) != 2 || rows.type.rank() != 3)
    return false;
  const int64_t cols = rows.type.lastDim().asConstant().value_or(0);
  return rows.resultIndex() == 0 && producer->results().size() == 1 && cols % groupColumns == 0 && cols > 0 &&
         cols <= mostColumnsOfWarp;
}

static Error gatherStatistics(Module &module, const PassOptions &options) {
  Expected<const Target *> target = targetNamed(options.getString("target"), module);
  if (!target)
    return target.takeError();
  for (const auto &function : module.functions) {
    TakenNames names(*function);
    for (Op *op : function->body.snapshot()) {
      Value *rows = rowsOfStatistics(*op);
      if (rows && isSumOfPrompts(*rows) && canFuse({rows->definingOp(), op})) {
        fuseOps({rows->definingOp(), op});
        continue;
      }
      Op *apply = rows ? soleUse(*op) : nullptr;
      if (!apply || !handsOutStatistics(*rows, **target, options.getBool("prompts")))
        continue;
      merge(*apply, *op, addGroups(*rows, names));
      op->erase();
    }
  }
  return Error::success();
}

const PassDef gatherStatisticsPass = {
    .name = "gather-statistics",
    .summary = "Takes the statistics of rows from the products or sums of ranks that make the rows",
    .run = gatherStatistics,
    .options = {{"target", Attribute::ident("sm_90a"), "the GPU that the plan is for"},
                {"prompts", false, "also take those of prompts"}},
};

} // namespace kiln
