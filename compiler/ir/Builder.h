//===- Builder.h - making ops in place --------------------------------------===//
#pragma once

#include "ir/IR.h"

namespace kiln {

/// Creates ops at an insertion point with inferred result types. Front end and passes build correct IR: an inference
/// error here is a bug in them and stops the program.
class Builder {
public:
  /// Inserts at the end of `block`.
  Builder(const OpTable &table, Block &block) : table(table), block(&block) {}
  /// Inserts before `op`.
  Builder(const OpTable &table, Op *op) : table(table), block(op->parent()), before(op) {}

  /// Location of the ops created from here on.
  Location loc;

  /// Creates an op with one result called `name`, which must be unused in the function.
  Value *create(OpKind kind, StringRef name, ArrayRef<Value *> operands, AttributeMap attributes = {});

  /// Creates `return` or `yield`.
  Op *createTerminator(OpKind kind, ArrayRef<Value *> operands);

private:
  const OpTable &table;
  Block *block;
  Op *before = nullptr;
};

/// The names that are taken in a function, or in all of a module. Collecting them takes a walk over the IR, so a pass
/// does it once and then reports what it renames and drops.
class TakenNames {
public:
  /// Collects the names of a function's values, and of the weights and states, which are visible in it.
  explicit TakenNames(const Function &function);
  /// Collects the names of all functions' values: a new weight or state must have none of them.
  explicit TakenNames(const Module &module);

  /// `hint`, or `hint_2`, `hint_3`, … if that is taken; marks the result as taken. A layer suffix stays last: `ln.3`
  /// gives `ln_2.3`.
  std::string unique(StringRef hint);
  /// Reports that a value got this name elsewhere.
  void take(StringRef name) { ++count[name]; }
  /// Reports that the value of this name was dropped or renamed.
  void release(StringRef name);

private:
  void takeGlobals(const Module &module);
  void takeValues(const Function &function);

  StringMap<unsigned> count; ///< a fused region may use the name of its result
};

/// `qkv_w.3` without the layer suffix: `qkv_w`.
StringRef withoutLayer(StringRef name);
/// `qkv.3` with `_pad` before the layer suffix: `qkv_pad.3`.
std::string withEnding(StringRef name, StringRef ending);

} // namespace kiln
