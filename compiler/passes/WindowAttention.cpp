// window-attention: a query sees the last keys only, its own among them.
//
//   %m = causal_mask %s   ->   %m = causal_mask %s {window = 128}
//
// option keys: how many; 0 leaves everything as it is. Another model is computed then: the same as before up to so many
// tokens, and beyond at a cost that grows with the tokens and not with their square (Beltagy, Peters, Cohan:
// Longformer, 2020). Before insert-kv-cache, so that @decode sees the same.
#include "passes/Pass.h"

namespace kiln {

static Error windowAttention(Module &module, const PassOptions &options) {
  int64_t keys = options.getInt("keys");
  for (const auto &function : module.functions)
    walk(function->body, [&](Op &op) {
      if (op.is(OpKind::causalMask) && keys > 0)
        op.setAttribute("window", keys);
    });
  return Error::success();
}

const PassDef windowAttentionPass = {
    .name = "window-attention",
    .summary = "Limits the keys that a query sees to the last ones",
    .run = windowAttention,
    .options = {{"keys", 0, "how many a query sees; 0: all"}},
};

} // namespace kiln
