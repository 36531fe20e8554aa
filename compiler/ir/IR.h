//===- IR.h - values, ops, blocks, functions, modules -----------------------===//
//
// A module owns bounded symbolic dims, weights, states and functions in SSA form; docs/ir.md has the grammar.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "ir/OpDef.h"
#include "support/SourceManager.h"
#include "support/model/Entry.h"
#include "support/model/WeightRecipe.h"

#include <list>

namespace kiln {

class Block;
class Function;
class Module;
class Op;

/// An SSA value: an op's result, a function's argument, or a module's weight or state.
class Value {
public:
  enum class Kind { Result, Argument, Weight, State };

  Value(Kind kind, StringRef name, Type type, Location loc)
      : name(name.str()), type(std::move(type)), loc(loc), kind(kind) {}
  Value(const Value &) = delete;

  std::string name; ///< without the '%'
  Type type;
  Location loc;

  Kind getKind() const { return kind; }
  bool isWeight() const { return kind == Kind::Weight; }
  bool isState() const { return kind == Kind::State; }

  /// The op that computes it; null for arguments, weights and states.
  Op *definingOp() const { return op; }
  /// Which result of definingOp() it is.
  unsigned resultIndex() const { return index; }

  /// Ops that have it as an operand, including ops inside fused regions; an op is listed once per use.
  ArrayRef<Op *> getUsers() const { return users; }
  bool hasOneUse() const { return users.size() == 1; }
  void replaceAllUsesWith(Value *other);

  /// Weights only: where its bytes come from.
  std::optional<WeightRecipe> recipe;

private:
  friend class Op;
  Kind kind;
  Op *op = nullptr;
  unsigned index = 0;
  SmallVector<Op *, 4> users;
};

/// An operation. Operands are values, results are owned. A fused op has no operands of its own: its region reads
/// outer values directly, and `inputs()` lists them.
class Op {
public:
  Op(const OpDef &def, ArrayRef<Value *> operands, AttributeMap attributes, Location loc);
  Op(const Op &) = delete;
  ~Op();

  const OpDef &def() const { return *record; }
  OpKind kind() const { return record->kind; }
  bool is(OpKind kind) const { return record->kind == kind; }
  bool has(Trait trait) const { return record->has(trait); }
  StringRef mnemonic() const { return record->mnemonic; }

  Location loc;

  // Operands
  ArrayRef<Value *> operands() const { return operandList; }
  Value *operand(unsigned i) const { return operandList[i]; }
  /// The optional operand at `i`, or null.
  Value *operandOrNull(unsigned i) const { return i < operandList.size() ? operandList[i] : nullptr; }
  void setOperand(unsigned i, Value *value);
  void addOperand(Value *value);
  /// The values that must be computed before this op: its operands, or the values that a fused region reads from
  /// outside, each once, in the order of first use.
  SmallVector<Value *, 8> inputs() const;

  // Results
  ArrayRef<std::unique_ptr<Value>> results() const { return resultList; }
  Value *result(unsigned i = 0) const { return resultList[i].get(); }
  Value *addResult(StringRef name, Type type);

  // Attributes
  const AttributeMap &attributes() const { return attributeMap; }
  const Attribute *attribute(StringRef name) const;
  void setAttribute(StringRef name, Attribute value) { attributeMap.insert_or_assign(name.str(), std::move(value)); }
  void removeAttribute(StringRef name);
  /// Attributes, with the default value where one is left out.
  int64_t intAttribute(StringRef name, int64_t otherwise = 0) const;
  double floatAttribute(StringRef name, double otherwise = 0) const;
  bool boolAttribute(StringRef name) const;
  StringRef identAttribute(StringRef name, StringRef otherwise = {}) const;

  // Place
  Block *parent() const { return block; }
  /// The fused op around this one, or null.
  Op *parentOp() const;
  /// This op, or the fused op around it.
  Op *topLevel() { return parentOp() ? parentOp() : this; }
  const Op *topLevel() const { return parentOp() ? parentOp() : this; }
  bool isBefore(const Op *other) const; ///< both in one block
  Op *next() const;                     ///< the next op in the block, or null

  /// Unlinks and destroys; no result may have users.
  void erase();
  void moveBefore(Op *other);

  // Region of a fused op
  Block *region() const { return body.get(); }
  Block *createRegion();
  /// `@name` of a fused op.
  std::string symbol;

private:
  friend class Block;
  void dropOperands(); ///< its own, not those of a region

  const OpDef *record;
  SmallVector<Value *, 4> operandList;
  std::vector<std::unique_ptr<Value>> resultList;
  AttributeMap attributeMap;
  std::unique_ptr<Block> body;
  Block *block = nullptr;
  std::list<std::unique_ptr<Op>>::iterator place; ///< in the block's list
  mutable uint64_t order = 0;                     ///< ascends along the block if Block::isNumbered
};

/// Ops in order; the last is a terminator.
class Block {
public:
  explicit Block(Function *function) : owner(function) {}
  explicit Block(Op *fused) : ownerOp(fused) {}
  ~Block();

  const std::list<std::unique_ptr<Op>> &ops() const { return opList; }
  bool empty() const { return opList.empty(); }
  Op *terminator() const { return opList.back().get(); }
  /// The ops in order as plain pointers: safe to walk while ops are erased or inserted.
  std::vector<Op *> snapshot() const;

  Op *parentOp() const { return ownerOp; }
  Function *function() const;

  /// Inserts before `before`; at the end when that is null.
  Op *insert(std::unique_ptr<Op> op, Op *before = nullptr);
  std::unique_ptr<Op> remove(Op *op);

  /// Removes the operands of all ops, including those of fused regions; for destructors.
  void dropOperands();

private:
  friend class Op;
  void setOrder(std::list<std::unique_ptr<Op>>::iterator inserted);
  void renumber() const;

  Function *owner = nullptr;
  Op *ownerOp = nullptr;
  std::list<std::unique_ptr<Op>> opList;
  mutable bool isNumbered = true; ///< Op::order can be relied on
};

/// The position of each op in the block; faster than Op::isBefore for many queries.
DenseMap<const Op *, size_t> positions(const Block &block);

/// `func @prefill(%tokens: i32[B,T]) -> f32[B,1,50257] { … return %logits }`
class Function {
public:
  Function(Module &module, StringRef name, Location loc) : name(name.str()), loc(loc), body(this), owner(&module) {}

  std::string name;
  Location loc;
  AttributeMap attributes;
  std::vector<std::unique_ptr<Value>> arguments;
  std::vector<Type> resultTypes;
  Block body;

  Module &module() const { return *owner; }
  Value *addArgument(StringRef name, Type type, Location loc);

private:
  Module *owner;
};

class Module {
public:
  explicit Module(StringRef name) : name(name.str()) {}
  Module(const Module &) = delete;
  ~Module();

  std::string name;
  Location loc;
  AttributeMap attributes;

private:
  std::vector<std::unique_ptr<Value>> weightList;
  StringMap<Value *> weightsByName;

public:
  std::vector<std::unique_ptr<DimSymbol>> dims;
  const std::vector<std::unique_ptr<Value>> &weights = weightList; ///< a weight keeps its name
  std::vector<std::unique_ptr<Value>> states;
  std::vector<std::unique_ptr<Function>> functions;

  /// The value of an attribute of moduleAttributes(); `otherwise`, or false, if it is absent.
  int64_t intAttribute(StringRef name, int64_t otherwise = 0) const;
  bool boolAttribute(StringRef name) const;
  /// The ranks that the module is for; 1 if its tensors are not split.
  int64_t ranks() const { return intAttribute(ModuleAttribute::ranks, 1); }

  const DimSymbol *addDim(StringRef name, int64_t min, int64_t max, Location loc = {});
  Value *addWeight(StringRef name, Type type, WeightRecipe recipe, Location loc = {});
  Value *addState(StringRef name, Type type, Location loc = {});
  Function *addFunction(StringRef name, Location loc = {});
  /// Drops weights and states that no op reads.
  void eraseUnused();

  const DimSymbol *findDim(StringRef name) const;
  Value *findWeight(StringRef name) const;
  Function *findFunction(StringRef name) const;
  Function *findFunction(Entry entry) const { return findFunction(entryName(entry)); }

  /// The dims that the attributes `batch` and `tokens` name: the sequences of a call, and the tokens of each. Null: the
  /// attribute is absent.
  const DimSymbol *batchDim() const { return dimOf(ModuleAttribute::batch); }
  const DimSymbol *tokensDim() const { return dimOf(ModuleAttribute::tokens); }

private:
  const DimSymbol *dimOf(StringRef attribute) const;
};

/// Calls `visit` on every op of a block, ops of fused regions before the fused op itself. `visit` may erase and insert
/// ops.
void walk(Block &block, function_ref<void(Op &)> visit);
void walk(const Block &block, function_ref<void(const Op &)> visit);

} // namespace kiln
