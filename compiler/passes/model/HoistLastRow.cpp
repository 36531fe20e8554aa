// hoist-last-row: selects each sequence's last row before computing on rows, not after.
//
//   %ln   = layernorm %x, %w, %b {eps = 1e-05}        %x_last = last_row %x, %lengths
//   %last = last_row %ln, %lengths               ->   %ln     = layernorm %x_last, %w, %b {eps = 1e-05}
//
// The pass repeats this until last_row follows an op that mixes rows. In a prefill it moves from the logits up to the
// last layer's attention, so that the projection and the MLP of that layer run on one row per sequence instead of T.
// option attention: and on to the queries, so that only the last one attends, at its position:
//
//   %m   = causal_mask %s                             %q_last = last_row %q, %lengths
//   …                                                 %s      = qk %q_last, %k
//   %a   = merge_heads %o                        ->   %m      = causal_mask %s, %lengths {offset = -1}
//   %last = last_row %a, %lengths                     …
//
// That is done when @decode has been made, whose only query attends at another position.
//
// Refuses: an op whose result has another user (all rows are needed then), ops that mix rows (attention without the
// option, other layout ops), a mask that has positions, values that no op computes, and a last_row that converts: the
// op would compute in the other type.
#include "ir/Builder.h"
#include "ops/OpTable.h"
#include "passes/Pass.h"

namespace kiln {

/// Ops for which row i of the result needs only row i of the row operands.
static bool isRowByRow(const Op &op) {
  bool isPointwise = op.has(Trait::Pointwise) && !op.is(OpKind::causalMask);
  return isPointwise || op.has(Trait::RowWise) || op.is(OpKind::matmul) || op.is(OpKind::allReduce);
}

/// Ops of attention for which row i of the result needs only row i of operand 0, and all of the others.
static bool isOfQuery(const Op &op) {
  return op.is(OpKind::qk) || op.is(OpKind::pv) || op.is(OpKind::mergeHeads) ||
         (op.is(OpKind::causalMask) && !op.operandOrNull(1));
}

/// Moves one last_row above the op that computes its operand; returns the new last_rows.
static SmallVector<Op *, 2> hoist(Op &lastRow, TakenNames &names, bool hoistsAboveAttention) {
  Op *producer = lastRow.operand(0)->definingOp();
  if (!producer || producer->parent() != lastRow.parent() || !lastRow.operand(0)->hasOneUse() ||
      lastRow.result()->type.dtype != producer->result()->type.dtype)
    return {};
  const bool isByRow = isRowByRow(*producer);
  if (!isByRow && !(hoistsAboveAttention && isOfQuery(*producer)))
    return {};
  Value *lengths = lastRow.operand(1);
  Type rows = producer->result()->type;

  SmallVector<Op *, 2> created;
  SmallVector<Value *, 4> operands(producer->operands());
  AttributeMap attributes = producer->attributes();
  Builder builder(opTable(), &lastRow);
  for (auto &operand : operands) {
    // Row operands have the batch and token dims; matrices and biases do not.
    const bool hasRows = isByRow ? operand->type.rank() == rows.rank() : &operand == operands.begin();
    if (!hasRows)
      continue;
    builder.loc = lastRow.loc;
    std::string name = names.unique(withEnding(operand->name, "_last"));
    operand = builder.create(OpKind::lastRow, name, {operand, lengths});
    created.push_back(operand->definingOp());
  }
  if (producer->is(OpKind::causalMask)) {
    operands.push_back(lengths);
    attributes.insert_or_assign("offset", -1);
  }
  builder.loc = producer->loc;
  // The replacement of both gets the name of the computing op.
  Value *result = builder.create(producer->kind(), producer->result()->name, operands, attributes);
  lastRow.result()->replaceAllUsesWith(result);
  names.release(lastRow.result()->name);
  lastRow.erase();
  producer->erase();
  return created;
}

/// Another last_row of the same rows and type, or null.
static Op *sameRows(const Op &op) {
  for (Op *user : op.operand(0)->getUsers())
    if (user != &op && user->is(OpKind::lastRow) && user->parent() == op.parent() &&
        user->operand(1) == op.operand(1) && user->result()->type == op.result()->type)
      return user;
  return nullptr;
}

static Error hoistLastRow(Module &module, const PassOptions &options) {
  for (const auto &function : module.functions) {
    TakenNames names(*function);
    SmallVector<Op *, 4> work;
    for (Op *op : function->body.snapshot())
      if (op->is(OpKind::lastRow))
        work.push_back(op);
    while (!work.empty()) {
      // Two paths from one value (residual and branch) need the same rows: one last_row serves both.
      Op *op = work.pop_back_val();
      while (Op *other = sameRows(*op)) {
        Op *first = other->isBefore(op) ? other : op, *second = first == op ? other : op;
        second->result()->replaceAllUsesWith(first->result());
        if (second->result()->name.size() < first->result()->name.size()) // %x_last, not %x_last_2
          std::swap(first->result()->name, second->result()->name);
        llvm::erase(work, other);
        names.release(second->result()->name);
        second->erase();
        op = first;
      }
      llvm::append_range(work, hoist(*op, names, options.getBool("attention")));
    }
  }
  return Error::success();
}

const PassDef hoistLastRowPass = {
    .name = "hoist-last-row",
    .summary = "Selects the last row of each sequence before row-by-row ops instead of after them",
    .run = hoistLastRow,
    .options = {{"attention", false, "before attention, too"}},
};

} // namespace kiln
