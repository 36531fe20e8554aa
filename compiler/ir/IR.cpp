#include "ir/IR.h"

namespace kiln {

//===----------------------------------------------------------------------===//
// Value
//===----------------------------------------------------------------------===//

void Value::replaceAllUsesWith(Value *other) {
  assert(other != this && "a value cannot replace itself");
  SmallVector<Op *, 4> all = users;
  for (Op *user : all)
    for (unsigned i = 0; i < user->operands().size(); ++i)
      if (user->operand(i) == this)
        user->setOperand(i, other);
}

//===----------------------------------------------------------------------===//
// Op
//===----------------------------------------------------------------------===//

Op::Op(const OpDef &def, ArrayRef<Value *> operands, AttributeMap attributes, Location loc)
    : loc(loc), record(&def), attributeMap(std::move(attributes)) {
  for (Value *value : operands)
    addOperand(value);
}

Op::~Op() { dropOperands(); }

void Op::addOperand(Value *value) {
  operandList.push_back(value);
  value->users.push_back(this);
}

void Op::setOperand(unsigned i, Value *value) {
  auto &users = operandList[i]->users;
  users.erase(llvm::find(users, this));
  operandList[i] = value;
  value->users.push_back(this);
}

void Op::dropOperands() {
  for (Value *value : operandList)
    value->users.erase(llvm::find(value->users, this));
  operandList.clear();
}

SmallVector<Value *, 8> Op::inputs() const {
  SmallVector<Value *, 8> list;
  if (!body) {
    for (Value *value : operandList)
      if (!llvm::is_contained(list, value))
        list.push_back(value);
    return list;
  }
  for (const auto &inner : body->ops())
    for (Value *value : inner->operands()) {
      bool isInside = value->definingOp() && value->definingOp()->parent() == body.get();
      if (!isInside && !llvm::is_contained(list, value))
        list.push_back(value);
    }
  return list;
}

Value *Op::addResult(StringRef name, Type type) {
  auto value = std::make_unique<Value>(Value::Kind::Result, name, std::move(type), loc);
  value->op = this;
  value->index = resultList.size();
  resultList.push_back(std::move(value));
  return resultList.back().get();
}

const Attribute *Op::attribute(StringRef name) const { return findAttribute(attributeMap, name); }

void Op::removeAttribute(StringRef name) {
  if (auto it = attributeMap.find(name); it != attributeMap.end())
    attributeMap.erase(it);
}

int64_t Op::intAttribute(StringRef name, int64_t otherwise) const {
  const Attribute *value = attribute(name);
  return value ? value->asInt() : otherwise;
}

double Op::floatAttribute(StringRef name, double otherwise) const {
  const Attribute *value = attribute(name);
  return value ? value->asFloat() : otherwise;
}

bool Op::boolAttribute(StringRef name) const {
  const Attribute *value = attribute(name);
  return value && value->asBool();
}

StringRef Op::identAttribute(StringRef name, StringRef otherwise) const {
  const Attribute *value = attribute(name);
  return value ? value->asString() : otherwise;
}

Op *Op::parentOp() const { return block ? block->parentOp() : nullptr; }

bool Op::isBefore(const Op *other) const { return block->position(this) < block->position(other); }

void Op::erase() {
  assert(llvm::all_of(resultList, [](const auto &value) { return value->getUsers().empty(); }) &&
         "erasing an op whose results are used");
  block->remove(this);
}

void Op::moveBefore(Op *other) {
  Block *target = other->block;
  target->insert(block->remove(this), other);
}

Block *Op::createRegion() {
  body = std::make_unique<Block>(this);
  return body.get();
}

//===----------------------------------------------------------------------===//
// Block
//===----------------------------------------------------------------------===//

/// No value may be destroyed while it is used; and in a module that the verifier has yet to refuse, a use may stand
/// before the definition.
Block::~Block() { dropOperands(); }

void Block::dropOperands() {
  for (const auto &op : opList) {
    op->dropOperands();
    if (op->body)
      op->body->dropOperands();
  }
}

std::vector<Op *> Block::snapshot() const {
  std::vector<Op *> list;
  for (const auto &op : opList)
    list.push_back(op.get());
  return list;
}

Function *Block::function() const { return owner ? owner : ownerOp->parent()->function(); }

size_t Block::position(const Op *op) const {
  auto it = llvm::find_if(opList, [&](const auto &candidate) { return candidate.get() == op; });
  assert(it != opList.end() && "op of another block");
  return it - opList.begin();
}

Op *Block::insert(std::unique_ptr<Op> op, Op *before) {
  op->block = this;
  auto at = before ? opList.begin() + position(before) : opList.end();
  return opList.insert(at, std::move(op))->get();
}

std::unique_ptr<Op> Block::remove(Op *op) {
  auto at = opList.begin() + position(op);
  std::unique_ptr<Op> taken = std::move(*at);
  opList.erase(at);
  taken->block = nullptr;
  return taken;
}

//===----------------------------------------------------------------------===//
// Function and module
//===----------------------------------------------------------------------===//

Value *Function::addArgument(StringRef name, Type type, Location loc) {
  arguments.push_back(std::make_unique<Value>(Value::Kind::Argument, name, std::move(type), loc));
  return arguments.back().get();
}

/// A use may even stand in another function, until the verifier has refused it.
Module::~Module() {
  for (const auto &function : functions)
    function->body.dropOperands();
}

template <class Items> static auto *findByName(const Items &items, StringRef name) {
  auto it = llvm::find_if(items, [&](const auto &item) { return item->name == name; });
  return it == items.end() ? nullptr : it->get();
}

Value *Function::findArgument(StringRef name) const { return findByName(arguments, name); }

const DimSymbol *Module::addDim(StringRef name, int64_t min, int64_t max, Location loc) {
  dims.push_back(std::make_unique<DimSymbol>(DimSymbol{name.str(), min, max, loc}));
  return dims.back().get();
}

int64_t Module::intAttribute(StringRef name, int64_t otherwise) const {
  const Attribute *value = findAttribute(attributes, name, Attribute::Kind::Int);
  return value ? value->asInt() : otherwise;
}

bool Module::boolAttribute(StringRef name) const {
  const Attribute *value = findAttribute(attributes, name, Attribute::Kind::Bool);
  return value && value->asBool();
}

Value *Module::addWeight(StringRef name, Type type, WeightRecipe recipe, Location loc) {
  weights.push_back(std::make_unique<Value>(Value::Kind::Weight, name, std::move(type), loc));
  weights.back()->recipe = std::move(recipe);
  return weights.back().get();
}

Value *Module::addState(StringRef name, Type type, Location loc) {
  states.push_back(std::make_unique<Value>(Value::Kind::State, name, std::move(type), loc));
  return states.back().get();
}

Function *Module::addFunction(StringRef name, Location loc) {
  functions.push_back(std::make_unique<Function>(*this, name, loc));
  return functions.back().get();
}

const DimSymbol *Module::dimOf(StringRef attribute) const {
  const Attribute *name = findAttribute(attributes, attribute, Attribute::Kind::Ident);
  return name ? findDim(name->asString()) : nullptr;
}

const DimSymbol *Module::findDim(StringRef name) const { return findByName(dims, name); }
Value *Module::findWeight(StringRef name) const { return findByName(weights, name); }
Value *Module::findState(StringRef name) const { return findByName(states, name); }
Function *Module::findFunction(StringRef name) const { return findByName(functions, name); }

void walk(Block &block, function_ref<void(Op &)> visit) {
  for (Op *op : block.snapshot()) {
    if (op->region())
      walk(*op->region(), visit);
    visit(*op);
  }
}

} // namespace kiln
