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

std::string withEnding(StringRef name, StringRef ending) {
  StringRef base = withoutLayer(name);
  return (base + ending + name.drop_front(base.size())).str();
}

//===----------------------------------------------------------------------===//
// Names
//===----------------------------------------------------------------------===//

TakenNames::TakenNames(const Function &function) {
  takeGlobals(function.module());
  takeValues(function);
}

TakenNames::TakenNames(const Module &module) {
  takeGlobals(module);
  for (const auto &function : module.functions)
    takeValues(*function);
}

void TakenNames::takeGlobals(const Module &module) {
  for (const auto &weight : module.weights)
    take(weight->name);
  for (const auto &state : module.states)
    take(state->name);
}

void TakenNames::takeValues(const Function &function) {
  for (const auto &argument : function.arguments)
    take(argument->name);
  walk(function.body, [&](const Op &op) {
    for (const auto &result : op.results())
      take(result->name);
  });
}

std::string TakenNames::unique(StringRef hint) {
  std::string candidate = hint.str();
  for (int i = 2; count.lookup(candidate) > 0; ++i)
    candidate = withEnding(hint, "_" + std::to_string(i));
  take(candidate);
  return candidate;
}

void TakenNames::release(StringRef name) {
  auto it = count.find(name);
  assert(it != count.end() && it->second > 0 && "the name is not taken");
  --it->second;
}

} // namespace kiln
