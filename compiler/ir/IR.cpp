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

bool Op::isBefore(const Op *other) const {
  assert(block == other->block && "ops of one block have an order");
  if (!block->isNumbered)
    block->renumber();
  return order < other->order;
}

Op *Op::next() const {
  auto behind = std::next(place);
  return behind == block->opList.end() ? nullptr : behind->get();
}

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

/// Drops all uses first, since a value must not be destroyed while it is used. In a module that the verifier has not
/// refused yet, a use may precede the definition.
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

/// The distance between two numbers, which leaves room to insert ops.
constexpr uint64_t orderStride = uint64_t(1) << 20;

void Block::renumber() const {
  uint64_t order = 0;
  for (const auto &op : opList)
    op->order = order += orderStride;
  isNumbered = true;
}

/// Gives an op a number between its neighbours'. If none is left, all ops are renumbered when a number is next needed.
void Block::setOrder(std::list<std::unique_ptr<Op>>::iterator inserted) {
  auto behind = std::next(inserted);
  uint64_t low = inserted == opList.begin() ? 0 : (*std::prev(inserted))->order;
  uint64_t high = behind == opList.end() ? low + 2 * orderStride : (*behind)->order;
  (*inserted)->order = low + (high - low) / 2;
  isNumbered = isNumbered && low < (*inserted)->order;
}

Op *Block::insert(std::unique_ptr<Op> op, Op *before) {
  assert((!before || before->block == this) && "op of another block");
  auto place = opList.insert(before ? before->place : opList.end(), std::move(op));
  (*place)->block = this;
  (*place)->place = place;
  setOrder(place);
  return place->get();
}

std::unique_ptr<Op> Block::remove(Op *op) {
  assert(op->block == this && "op of another block");
  std::unique_ptr<Op> taken = std::move(*op->place);
  opList.erase(op->place);
  taken->block = nullptr;
  return taken;
}

DenseMap<const Op *, size_t> positions(const Block &block) {
  DenseMap<const Op *, size_t> positions;
  for (const auto &[position, op] : llvm::enumerate(block.ops()))
    positions[op.get()] = position;
  return positions;
}

//===----------------------------------------------------------------------===//
// Function and module
//===----------------------------------------------------------------------===//

Value *Function::addArgument(StringRef name, Type type, Location loc) {
  arguments.push_back(std::make_unique<Value>(Value::Kind::Argument, name, std::move(type), loc));
  return arguments.back().get();
}

/// Drops uses in all functions first: before verification, a use may even be in another function than its value.
Module::~Module() {
  for (const auto &function : functions)
    function->body.dropOperands();
}

template <class Items> static auto *findByName(const Items &items, StringRef name) {
  auto it = llvm::find_if(items, [&](const auto &item) { return item->name == name; });
  return it == items.end() ? nullptr : it->get();
}

const DimSymbol *Module::addDim(StringRef name, int64_t min, int64_t max, Location loc) {
  dims.push_back(std::make_unique<DimSymbol>(DimSymbol{name.str(), min, max, loc}));
  return dims.back().get();
}

int64_t Module::intAttribute(StringRef name, int64_t otherwise) const {
  assert(findSpec(moduleAttributes(), name) && "no attribute of modules");
  const Attribute *value = findAttribute(attributes, name);
  return value ? value->asInt() : otherwise;
}

bool Module::boolAttribute(StringRef name) const {
  assert(findSpec(moduleAttributes(), name) && "no attribute of modules");
  const Attribute *value = findAttribute(attributes, name);
  return value && value->asBool();
}

Value *Module::addWeight(StringRef name, Type type, WeightRecipe recipe, Location loc) {
  weightList.push_back(std::make_unique<Value>(Value::Kind::Weight, name, std::move(type), loc));
  weightList.back()->recipe = std::move(recipe);
  weightsByName.insert({name, weightList.back().get()});
  return weightList.back().get();
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
  const Attribute *name = findAttribute(attributes, attribute);
  return name ? findDim(name->asString()) : nullptr;
}

void Module::eraseUnused() {
  for (const auto &weight : weights)
    if (weight->getUsers().empty())
      weightsByName.erase(weight->name);
  llvm::erase_if(weightList, [](const auto &weight) { return weight->getUsers().empty(); });
  llvm::erase_if(states, [](const auto &state) { return state->getUsers().empty(); });
}

const DimSymbol *Module::findDim(StringRef name) const { return findByName(dims, name); }
Value *Module::findWeight(StringRef name) const { return weightsByName.lookup(name); }
Function *Module::findFunction(StringRef name) const { return findByName(functions, name); }

void walk(Block &block, function_ref<void(Op &)> visit) {
  for (Op *op : block.snapshot()) {
    if (op->region())
      walk(*op->region(), visit);
    visit(*op);
  }
}

void walk(const Block &block, function_ref<void(const Op &)> visit) {
  for (const auto &op : block.ops()) {
    if (op->region())
      walk(std::as_const(*op->region()), visit);
    visit(*op);
  }
}

} // namespace kiln
