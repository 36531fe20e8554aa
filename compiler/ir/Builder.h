//===- Builder.h - making ops in place --------------------------------------===//
#pragma once

#include "ir/IR.h"

namespace kiln {

/// Creates ops at an insertion point with inferred result types. What front end and passes build is correct by
/// construction: an inference error here is a bug of theirs and stops the program.
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

/// The names that are taken in a function, or in all of a module. Finding them takes a walk, so a pass does that once
/// and says then what it renames and drops.
class TakenNames {
public:
  /// Those of a function's values, and of weights and states, which are visible in it.
  explicit TakenNames(const Function &function);
  /// Those of all functions: a new weight or state must have none of them.
  explicit TakenNames(const Module &module);

  /// `hint`, or `hint_2`, `hint_3`, … if that is taken; now it is. A layer suffix stays last: `ln.3` gives `ln_2.3`.
  std::string unique(StringRef hint);
  /// A value has got that name elsewhere.
  void take(StringRef name) { ++count[name]; }
  /// A value of that name was dropped, or has another name now.
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
