// select-kernels: says for every op of a function's body which kernel template runs it.
//
//   %y = fused @matmul_bias(%x, %w, %b) {…} : f32[B,T,768]
//     -> %y = fused @matmul_bias(%x, %w, %b) {…} {kernel = gemm_simt} : f32[B,T,768]
//
// The first family of the table (kernels/KernelFamily.cpp) that accepts the op at the bounds of its dims runs it. option target: the GPU, as
// graphs/targets/ names it; it becomes the module's attribute `target`.
//
// Refuses: an op that no family accepts: an error at the op.
#include "ir/Verifier.h"
#include "kernels/Problem.h"
#include "passes/Pass.h"

namespace kiln {

static Error selectKernels(Module &module, const PassOptions &options) {
  Expected<const Target *> target = findTarget(options.getString("target"));
  if (!target)
    return target.takeError();
  module.attributes.insert_or_assign("target", Attribute::ident((*target)->name));
  for (const auto &function : module.functions)
    for (const auto &op : function->body.ops()) {
      if (op->has(Trait::Terminator))
        continue;
      const KernelFamily *family = selectFamily(*op, **target, upperBounds(*op));
      if (!family)
        return opError(*op, "no kernel of " + (*target)->name + " runs this");
      op->setAttribute("kernel", Attribute::ident(family->name));
    }
  return Error::success();
}

const PassDef selectKernelsPass = {
    .name = "select-kernels",
    .summary = "Chooses the kernel template that runs each op",
    .run = selectKernels,
    .options = {{"target", Attribute::ident("sm_90a"), "the GPU that the plan is for"}},
};

} // namespace kiln
