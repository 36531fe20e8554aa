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

/// `hint`, or `hint_2`, `hint_3`, … if that is taken in the function or the module. A layer suffix stays last:
/// `ln.3` gives `ln_2.3`.
std::string uniqueName(Function &function, StringRef hint);
/// The same for a weight or state, whose name must be free in every function.
std::string uniqueName(Module &module, StringRef hint);

/// `qkv_w.3` without the layer suffix: `qkv_w`.
StringRef withoutLayer(StringRef name);

} // namespace kiln
