// eliminate-dead-values: drops ops whose results nobody uses, then weights and states that no function reads.
//
//   %unused = gelu %x {approx = tanh}      ->   (gone)
//   weight %old_w : f32[8,8] = "old"       ->   (gone, once no op reads it)
//
// Refuses: ops that write a state, because a later call reads it; results of a fused region whose other results are
// used.
#include "passes/Pass.h"

namespace kiln {

static bool isDead(const Op &op) {
  if (op.has(Trait::Terminator) || op.has(Trait::WritesState))
    return false;
  if (op.region() && llvm::any_of(op.region()->ops(), [](const auto &inner) { return inner->has(Trait::WritesState); }))
    return false;
  return llvm::all_of(op.results(), [](const auto &result) { return result->getUsers().empty(); });
}

static void dropDeadOps(Block &block) {
  std::vector<Op *> ops = block.snapshot(); // users come after their operands: walk backwards
  for (Op *op : llvm::reverse(ops)) {
    if (isDead(*op))
      op->erase();
    else if (op->region())
      dropDeadOps(*op->region());
  }
}

static Error eliminateDeadValues(Module &module, const PassOptions &) {
  for (const auto &function : module.functions)
    dropDeadOps(function->body);
  module.eraseUnused();
  return Error::success();
}

const PassDef eliminateDeadValuesPass = {
    .name = "eliminate-dead-values",
    .summary = "Drops ops without users, then weights and states that nothing reads",
    .run = eliminateDeadValues,
};

} // namespace kiln
