// fuse-norm: a layernorm becomes part of the matmul that reads it, or of the residual addition that it follows.
//
//   %ln = layernorm %x, %g, %b {eps = 1e-05}       %y = fused @layernorm_matmul_bias(%x, %g, %b, %w, %c) {
//   %y  = fused @matmul_bias(%ln, %w, %c) {…}  ->    %ln = layernorm %x, %g, %b {eps = 1e-05}
//                                                    %mm = matmul %ln, %w
//                                                    …
//                                                  }
//
//   %x  = add %p, %r                               %x, %ln = fused @residual_layernorm(%p, %r, %g, %b) {
//   %ln = layernorm %x, %g, %b {eps = 1e-05}   ->    %x  = add %p, %r
//                                                    %ln = layernorm %x, %g, %b {eps = 1e-05}
//                                                    yield %x, %ln
//                                                  }
//
// option into: `consumer` tries the matmul first and then the addition, `producer` the addition only.
//
// Refuses: a layernorm that ops besides the matmul read (it would be computed twice), one that the matmul reads as its
// weight or that its epilogue reads again, and an addition that is fused already.
#include "passes/Pass.h"
#include "passes/Rewrite.h"

namespace kiln {

/// The op, plain or fused, whose matmul is the only reader of `normed`, as its left operand.
static Op *consumingMatmul(const Value &normed) {
  if (!normed.hasOneUse())
    return nullptr;
  Op *user = normed.getUsers()[0];
  return user->is(OpKind::matmul) && user->operand(0) == &normed ? user->topLevel() : nullptr;
}

/// The plain addition of two activations that the layernorm reads.
static Op *producingAdd(const Op &layernorm) {
  Op *add = layernorm.operand(0)->definingOp();
  return add && add->is(OpKind::add) && add->operand(1)->type.rank() > 1 ? add : nullptr;
}

static Error fuseNorm(Module &module, const PassOptions &options) {
  bool intoConsumer = options.getString("into") == "consumer";
  for (const auto &function : module.functions) {
    // Collect them first: a fused region that absorbs a layernorm is replaced, and may come after it in the block.
    std::vector<Op *> layernorms = function->body.snapshot();
    llvm::erase_if(layernorms, [](const Op *op) { return !op->is(OpKind::layernorm); });
    for (Op *op : layernorms) {
      Op *matmul = intoConsumer ? consumingMatmul(*op->result()) : nullptr;
      Op *add = producingAdd(*op);
      if (matmul && canFuse({op, matmul}))
        fuseOps({op, matmul});
      else if (add && canFuse({add, op}))
        fuseOps({add, op});
    }
  }
  return Error::success();
}

const PassDef fuseNormPass = {
    .name = "fuse-norm",
    .summary = "Fuses layernorm into the matmul that reads it, or into the residual addition before it",
    .run = fuseNorm,
    .options = {{"into", Attribute::ident("consumer"), "where a layernorm goes", {"consumer", "producer"}}},
};

} // namespace kiln
