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

std::string uniqueName(Function &function, StringRef hint) {
  StringSet<> taken;
  for (const auto &argument : function.arguments)
    taken.insert(argument->name);
  for (const auto &weight : function.module().weights)
    taken.insert(weight->name);
  for (const auto &state : function.module().states)
    taken.insert(state->name);
  walk(function.body, [&](Op &op) {
    for (const auto &result : op.results())
      taken.insert(result->name);
  });
  StringRef base = withoutLayer(hint);
  std::string candidate = hint.str();
  for (int i = 2; taken.contains(candidate); ++i)
    candidate = (base + "_" + Twine(i) + hint.drop_front(base.size())).str();
  return candidate;
}

} // namespace kiln
