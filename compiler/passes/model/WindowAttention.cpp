// window-attention: a query sees only the last keys, including its own.
//
//   %m = causal_mask %s   ->   %m = causal_mask %s {window = 128}
//
// option keys: the number of keys; 0 leaves everything as it is. This changes the model: results are the same up to
// that many tokens; beyond, the cost grows linearly with the tokens and not with their square (Beltagy, Peters, Cohan:
// Longformer, 2020). The pass runs before insert-kv-cache, so that @decode has the same window.
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
