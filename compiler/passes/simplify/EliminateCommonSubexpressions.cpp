// eliminate-common-subexpressions: replaces an op by an earlier op that computes the same.
//
//   %a = gelu %x {approx = tanh}
//   %b = gelu %x {approx = tanh}     ->   uses of %b become uses of %a
//
// Refuses: ops that write a state, ops with other operands, attributes or result types, and ops in another fused
// region (a value of one region is not visible in another).
#include "passes/Pass.h"

namespace kiln {

/// Equal text means equal value: kind, operands by identity, attributes.
static std::string keyOf(const Op &op) {
  std::string key = op.mnemonic().str();
  raw_string_ostream os(key);
  for (Value *operand : op.operands())
    os << ' ' << static_cast<const void *>(operand);
  os << ' ' << op.result()->type.str() << ' ';
  printAttributes(os, op.attributes());
  return key;
}

static void mergeEqualOps(Block &block) {
  StringMap<Op *> seen;
  for (Op *op : block.snapshot()) {
    if (op->region())
      mergeEqualOps(*op->region());
    if (op->region() || op->has(Trait::Terminator) || op->has(Trait::WritesState))
      continue;
    auto [it, isNew] = seen.insert({keyOf(*op), op});
    if (isNew)
      continue;
    op->result()->replaceAllUsesWith(it->second->result());
    op->erase();
  }
}

static Error eliminateCommonSubexpressions(Module &module, const PassOptions &) {
  for (const auto &function : module.functions)
    mergeEqualOps(function->body);
  return Error::success();
}

const PassDef eliminateCommonSubexpressionsPass = {
    .name = "eliminate-common-subexpressions",
    .summary = "Computes equal values once",
    .run = eliminateCommonSubexpressions,
};

} // namespace kiln
