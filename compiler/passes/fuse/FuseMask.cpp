// fuse-mask: scale and causal mask become part of QK^T, where attention as a whole is not fused.
//
//   %s = qk %q, %k                         %m = fused @qk_scale_causal_mask(%q, %k) {
//   %c = scale %s {factor = 0.125}           %s = qk %q, %k
//   %m = causal_mask %c              ->      %c = scale %s {factor = 0.125}
//                                            %m = causal_mask %c
//                                            yield %m
//                                          }
//
// A kernel that knows the mask need not compute the products above the diagonal, which are half of them. option masks:
// `none` leaves everything as it is, `prompts` takes masks without positions, where the diagonal is known when
// compiling.
//
// Refuses: masks with positions, scores with another user, ops other than scale between product and mask.
#include "passes/Pass.h"
#include "passes/Rewrite.h"

namespace kiln {

static Error fuseMask(Module &module, const PassOptions &options) {
  if (options.getString("masks") == "none")
    return Error::success();
  for (const auto &function : module.functions)
    for (Op *op : function->body.snapshot()) {
      if (!op->is(OpKind::causalMask) || op->operandOrNull(1))
        continue;
      SmallVector<Op *, 8> group = maskedScores(*op);
      if (!group.empty() && canFuse(group))
        fuseOps(group);
    }
  return Error::success();
}

const PassDef fuseMaskPass = {
    .name = "fuse-mask",
    .summary = "Fuses scale and causal mask into QK^T, whose products above the diagonal nobody needs then",
    .run = fuseMask,
    .options = {{"masks", Attribute::ident("none"), "which masks", {"none", "prompts"}}},
};

} // namespace kiln
