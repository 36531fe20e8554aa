#include "ir/Builder.h"

#include "ir/Verifier.h"

namespace kiln {

Value *Builder::create(OpKind kind, StringRef name, ArrayRef<Value *> operands, AttributeMap attributes) {
  auto op = std::make_unique<Op>(table[kind], operands, std::move(attributes), loc);
  Type type = cantFail(inferType(*op), "builder: ill-formed op");
  Value *result = op->addResult(name, std::move(type));
  block->insert(std::move(op), before);
  return result;
}

Op *Builder::createTerminator(OpKind kind, ArrayRef<Value *> operands) {
  return block->insert(std::make_unique<Op>(table[kind], operands, AttributeMap(), loc), before);
}

StringRef withoutLayer(StringRef name) {
  auto [base, layer] = name.rsplit('.');
  return !layer.empty() && llvm::all_of(layer, llvm::isDigit) ? base : name;
}

static void addNames(Function &function, StringSet<> &names) {
  for (const auto &argument : function.arguments)
    names.insert(argument->name);
  walk(function.body, [&](Op &op) {
    for (const auto &result : op.results())
      names.insert(result->name);
  });
}

static void addGlobalNames(Module &module, StringSet<> &names) {
  for (const auto &weight : module.weights)
    names.insert(weight->name);
  for (const auto &state : module.states)
    names.insert(state->name);
}

static std::string firstFree(const StringSet<> &taken, StringRef hint) {
  StringRef base = withoutLayer(hint);
  std::string candidate = hint.str();
  for (int i = 2; taken.contains(candidate); ++i)
    candidate = (base + "_" + Twine(i) + hint.drop_front(base.size())).str();
  return candidate;
}

std::string uniqueName(Function &function, StringRef hint) {
  StringSet<> taken;
  addGlobalNames(function.module(), taken);
  addNames(function, taken);
  return firstFree(taken, hint);
}

std::string uniqueName(Module &module, StringRef hint) {
  StringSet<> taken;
  addGlobalNames(module, taken);
  for (const auto &function : module.functions)
    addNames(*function, taken);
  return firstFree(taken, hint);
}

} // namespace kiln
