// fuse-attention: QK^T, scale, mask, softmax, PV and the merge of the heads become one flash-attention region, so that
// the T × S scores never reach memory (Dao et al. 2022; Milakov and Gimelshein 2018 for the online softmax).
//
//   %s   = qk %q, %k                        %o = fused @attention(%q, %k, %v) {
//   %sc  = scale %s {factor = 0.125}          %s   = qk %q, %k
//   %m   = causal_mask %sc                    …
//   %p   = softmax %m                  ->     %o   = merge_heads %out
//   %out = pv %p, %v                          yield %o
//   %o   = merge_heads %out                 }
//
// Refuses: no causal mask (the kernels skip what it hides), another user of any value on the way, a head size that is
// no multiple of 8 or more than 256, values of another head size, pointwise ops other than scale and mask, a mask
// before the scale.
#include "passes/Pass.h"
#include "passes/Rewrite.h"

namespace kiln {

/// Whether queries, keys and values have the same head size, and the kernels support it.
static bool hasSupportedHeadSize(const Op &qk, const Op &pv) {
  std::optional<int64_t> size = qk.operand(0)->type.lastDim().asConstant();
  return size && *size % 8 == 0 && *size <= 256 && pv.operand(1)->type.lastDim() == Dim(*size);
}

/// The ops of the attention that ends in `pv`; empty if it is not an attention.
static SmallVector<Op *, 8> matchAttention(Op &pv) {
  Op *softmax = soleProducer(*pv.operand(0), OpKind::softmax);
  Op *mask = softmax ? soleProducer(*softmax->operand(0), OpKind::causalMask) : nullptr;
  SmallVector<Op *, 8> group = mask ? maskedScores(*mask) : SmallVector<Op *, 8>();
  if (group.empty() || !hasSupportedHeadSize(*group.back(), pv))
    return {};
  group.append({softmax, &pv});
  Op *user = pv.result()->hasOneUse() ? pv.result()->getUsers()[0] : nullptr;
  if (user && user->is(OpKind::mergeHeads) && !user->parentOp())
    group.push_back(user);
  return group;
}

static Error fuseAttention(Module &module, const PassOptions &) {
  for (const auto &function : module.functions)
    for (Op *op : function->body.snapshot()) {
      if (!op->is(OpKind::pv))
        continue;
      SmallVector<Op *, 8> group = matchAttention(*op);
      if (!group.empty() && canFuse(group))
        fuseOps(group);
    }
  return Error::success();
}

const PassDef fuseAttentionPass = {
    .name = "fuse-attention",
    .summary = "Fuses QK^T, scale, mask, softmax and PV into flash attention",
    .run = fuseAttention,
};

} // namespace kiln
