// fuse-exchange: the sum over ranks becomes part of the product whose parts it adds up.
//
//   %p = matmul %x, %w {out = f32}                    %y, %means, %squares = fused @matmul_all_reduce_…(%x, %w, …) {
//   %y, %means, %squares = fused @all_reduce_…(…) {     %p = matmul %x, %w {out = f32}
//     %s = all_reduce %p                         ->     %s = all_reduce %p
//     …                                                 …
//     yield %y, %means, %squares                        yield %y, %means, %squares
//   }                                                 }
//
// So the sum has no kernel of its own, which would begin when the product has ended and its parts are in memory. A
// thread with sums of the product exchanges them with the same thread of the other ranks, and goes on
// (templates/exchange/thread_exchange.cuh). option target: the GPU, as graphs/targets/ names it.
//
// Refuses: functions other than @decode, whose calls may run as two halves: blocks that wait for other ranks need
// places beside those of the other half, and blocks of products leave none. Products that kernels for few rows do not
// run for all numbers of rows that there may be: every variant of a step must exchange. Parts that anything else reads.
#include "kernels/families/matmul/WgmmaRows.h"
#include "ops/Region.h"
#include "passes/Pass.h"
#include "passes/Rewrite.h"

namespace kiln {

/// The op, plain or fused, that adds up the parts in `value` and is their only reader; or null.
static Op *sumOf(const Value &value) {
  Op *user = value.hasOneUse() ? value.getUsers()[0] : nullptr;
  return user && user->is(OpKind::allReduce) && anchor(*user->topLevel()) == user ? user->topLevel() : nullptr;
}

static Error fuseExchange(Module &module, const PassOptions &options) {
  Expected<const Target *> target = targetNamed(options.getString("target"), module);
  if (!target)
    return target.takeError();
  if (Function *decode = module.findFunction(Entry::Decode))
    for (Op *op : decode->body.snapshot()) {
      Op *sum = op->is(OpKind::matmul) ? sumOf(*op->result()) : nullptr;
      if (sum && canSumParts(*op, **target) && canFuse({op, sum}))
        fuseOps({op, sum});
    }
  return Error::success();
}

const PassDef fuseExchangePass = {
    .name = "fuse-exchange",
    .summary = "Makes sums over ranks part of the products of few rows whose parts they add up",
    .run = fuseExchange,
    .options = {{"target", Attribute::ident("sm_90a"), "the GPU that the plan is for"}},
};

} // namespace kiln
