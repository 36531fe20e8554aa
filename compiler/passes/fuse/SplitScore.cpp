// split-score: takes the product out of a region that scores tokens, where no kernel does both.
//
//   %p, %best = fused @matmul_slice_score(%x, %wte, %targets) {…}
//     -> %logits   = fused @matmul_slice(%x, %wte) {…}
//        %p, %best = fused @score(%logits, %targets) {…}
//
// The logits are then in memory. option target: the GPU, as graphs/targets/ names it.
//
// Refuses: regions that a kernel of the target runs whole.
#include "kernels/cost/Problem.h"
#include "kernels/families/KernelFamily.h"
#include "kernels/families/matmul/TokenScores.h"
#include "ops/Region.h"
#include "passes/Pass.h"
#include "passes/Rewrite.h"

namespace kiln {

static Error splitScore(Module &module, const PassOptions &options) {
  Expected<const Target *> target = targetNamed(options.getString("target"), module);
  if (!target)
    return target.takeError();
  for (const auto &function : module.functions)
    for (Op *op : function->body.snapshot()) {
      if (!hasScoredProduct(*op) || selectFamily(*op, **target, boundsToChooseFor(*op)))
        continue;
      SmallVector<Op *, 8> product;
      for (Op *inner : op->region()->snapshot())
        if (!isScore(*inner) && !inner->has(Trait::Terminator)) {
          inner->moveBefore(op);
          product.push_back(inner);
        }
      op->symbol = regionName(*op->region());
      if (product.size() > 1)
        fuseOps(product);
    }
  return Error::success();
}

const PassDef splitScorePass = {
    .name = "split-score",
    .summary = "Takes the product out of regions that score tokens, where no kernel does both",
    .run = splitScore,
    .options = {{"target", Attribute::ident("sm_90a"), "the GPU that the plan is for"}},
};

} // namespace kiln
