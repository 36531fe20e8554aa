// fuse-statistics: a product computes the statistics of its rows itself, beside the tensor cores.
//
//   %mean, %rstd = fused @row_mean_row_rstd(%x) {…}       %y = fused @matmul_norm_bias(%x, %w, %s, %c) {
//   %y = fused @matmul_norm_bias(%x, …, %mean, %rstd) {     %mm   = matmul %x, %w
//     %mm = matmul %x, %w                                   %mean = row_mean %x
//     %n  = normalize_product %mm, %mean, %rstd, %s   ->    %rstd = row_rstd %x, %mean {…}
//     …                                                     %n    = normalize_product %mm, %mean, %rstd, %s
//   }                                                       …
//                                                         }
//
// So there is no kernel in front of the product that reads all rows and ends before the product can begin: some 1.2 µs
// of each product of a prompt. The kernel's blocks deal out the rows among warps that have nothing to do, and hand each
// other the statistics (templates/row_mail.cuh). option target: the GPU, as graphs/targets/ names it.
//
// Refuses: products of few tokens, which up to 16 rows run by a kernel of other warps (gather-statistics serves them);
// products that copies of Hopper cannot read, or whose logits are scored; statistics with other readers; rows of more
// than mostColumnsOfWarp, which a warp reads by unrolled loads.
#include "ir/Builder.h"
#include "kernels/cost/Problem.h"
#include "kernels/families/Families.h"
#include "kernels/families/matmul/TokenScores.h"
#include "kernels/families/matmul/WgmmaOperands.h"
#include "ops/OpTable.h"
#include "ops/Region.h"
#include "passes/Pass.h"
#include "passes/norm/RowStatistics.h"

namespace kiln {

/// Whether the kernels that run the product can compute statistics of its rows.
static bool canComputeStatistics(const Op &product, const Value &rows, const Target &target) {
  const Op &matmul = *anchor(product);
  return matmul.is(OpKind::matmul) && matmul.operand(0) == &rows && canMapProduct(product, target) &&
         !hasScoredProduct(product) && !hasFewTokens(product, matmul.result()->type) &&
         rows.type.lastDim().asConstant().value_or(mostColumnsOfWarp + 1) <= mostColumnsOfWarp;
}

/// Computes the statistics in front of the op that applies them.
static void computeBefore(Op &apply, const Op &statistics, Value &rows) {
  const Op &rstd = *statistics.region()->terminator()->operand(1)->definingOp();
  Builder builder(opTable(), &apply);
  builder.loc = rstd.loc;
  Value *mean = builder.create(OpKind::rowMean, statistics.result(0)->name, {&rows});
  apply.setOperand(1, mean);
  apply.setOperand(
      2, builder.create(OpKind::rowRstd, statistics.result(1)->name, {&rows, mean}, {{"eps", *rstd.attribute("eps")}}));
}

static Error fuseStatistics(Module &module, const PassOptions &options) {
  Expected<const Target *> target = targetNamed(options.getString("target"), module);
  if (!target)
    return target.takeError();
  for (const auto &function : module.functions)
    for (Op *op : function->body.snapshot()) {
      Value *rows = rowsOfStatistics(*op);
      Op *apply = rows ? soleUse(*op) : nullptr;
      if (!apply || !canComputeStatistics(*apply->parentOp(), *rows, **target))
        continue;
      Op &product = *apply->parentOp();
      computeBefore(*apply, *op, *rows);
      op->erase();
      product.symbol = regionName(*product.region());
    }
  return Error::success();
}

const PassDef fuseStatisticsPass = {
    .name = "fuse-statistics",
    .summary = "Computes statistics of rows in the product that applies them",
    .run = fuseStatistics,
    .options = {{"target", Attribute::ident("sm_90a"), "the GPU that the plan is for"}},
};

} // namespace kiln
