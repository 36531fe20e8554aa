// split-norm: takes a layernorm out of the matmul that it was fused into, where tensor cores run the matmul.
//
//   %y = fused @layernorm_matmul_bias(%x, %g, %b, %w, %c) {      %ln = layernorm %x, %g, %b {eps = 1e-05}
//     %ln = layernorm %x, %g, %b {eps = 1e-05}              ->   %y  = fused @matmul_bias(%ln, %w, %c) {
//     %mm = matmul %ln, %w                                         %mm = matmul %ln, %w
//     …                                                            …
//
// Tensor-core kernels copy their operands from memory unchanged, by asynchronous copies, and each of many blocks would
// have to normalise its rows again. option target: the GPU, as graphs/targets/ names it.
//
// Refuses: matmuls of few rows or on a target without tensor cores (normalising on the way in costs nothing there), and
// regions that yield the layernorm.
#include "kernels/families/Families.h"
#include "ops/Region.h"
#include "passes/Pass.h"
#include "passes/Rewrite.h"

namespace kiln {

static Error splitNorm(Module &module, const PassOptions &options) {
  Expected<const Target *> target = targetNamed(options.getString("target"), module);
  if (!target)
    return target.takeError();
  for (const auto &function : module.functions)
    for (Op *op : function->body.snapshot()) {
      Op *layernorm = fusedNorm(*op);
      if (!layernorm || !wantsNormOutside(*op, **target))
        continue;
      layernorm->moveBefore(op);
      op->symbol = regionName(*op->region());
    }
  return Error::success();
}

const PassDef splitNormPass = {
    .name = "split-norm",
    .summary = "Takes layernorms out of matmuls that run in tensor cores",
    .run = splitNorm,
    .options = {{"target", Attribute::ident("sm_90a"), "the GPU that the plan is for"}},
};

} // namespace kiln
