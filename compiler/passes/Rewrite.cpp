#include "passes/Rewrite.h"

#include "ir/Builder.h"
#include "ir/Verifier.h"
#include "ops/OpTable.h"
#include "ops/Region.h"

namespace kiln {

Op *soleProducer(const Value &value) { return value.hasOneUse() ? value.definingOp() : nullptr; }

Op *soleProducer(const Value &value, OpKind kind) {
  Op *op = soleProducer(value);
  return op && op->is(kind) ? op : nullptr;
}

SmallVector<Op *, 8> maskedScores(Op &mask) {
  SmallVector<Op *, 8> group = {&mask};
  Value *scores = mask.operand(0);
  while (Op *scale = soleProducer(*scores, OpKind::scale)) {
    group.push_back(scale);
    scores = scale->operand(0);
  }
  Op *qk = soleProducer(*scores, OpKind::qk);
  if (!qk)
    return {};
  group.push_back(qk);
  return group;
}

static SmallVector<Op *, 8> inBlockOrder(ArrayRef<Op *> group) {
  SmallVector<Op *, 8> ordered(group);
  llvm::sort(ordered, [](Op *a, Op *b) { return a != b && a->isBefore(b); });
  return ordered;
}

static bool isOutside(const Op *user, ArrayRef<Op *> group) {
  return !llvm::is_contained(group, const_cast<Op *>(user)->topLevel());
}

/// Whether `user` comes between the group's ops without being one of them.
static bool isBetween(Op *user, ArrayRef<Op *> ordered) {
  return isOutside(user, ordered) && user->topLevel()->parent() == ordered.back()->parent() &&
         user->topLevel()->isBefore(ordered.back());
}

bool canFuse(ArrayRef<Op *> group) {
  SmallVector<Op *, 8> ordered = inBlockOrder(group);
  for (Op *op : ordered) {
    for (const auto &result : op->results())
      for (Op *user : result->getUsers())
        if (isBetween(user, ordered))
          return false;
    // A state may be read before it is written, not after.
    for (Value *input : op->inputs())
      if (input->isState())
        for (Op *user : input->getUsers())
          if (user->has(Trait::WritesState) && isBetween(user, ordered))
            return false;
  }
  return true;
}

/// Moves the ops of an already fused member into the new region and drops the member.
static void inlineFused(Op *fused, Op *yield) {
  Op *inner = fused->region()->terminator();
  for (const auto &[result, yielded] : llvm::zip(fused->results(), inner->operands()))
    result->replaceAllUsesWith(yielded);
  for (Op *op : fused->region()->snapshot())
    if (op != inner)
      op->moveBefore(yield);
  fused->erase();
}

Op *fuseOps(ArrayRef<Op *> group) {
  assert(canFuse(group) && "fusing would move a definition past its use");
  SmallVector<Op *, 8> ordered = inBlockOrder(group);
  Block *block = ordered.back()->parent();
  auto created =
      std::make_unique<Op>(opTable()[OpKind::fused], ArrayRef<Value *>(), AttributeMap(), ordered.back()->loc);
  Op *fused = block->insert(std::move(created), ordered.back());
  Block *region = fused->createRegion();
  Op *yield =
      region->insert(std::make_unique<Op>(opTable()[OpKind::yield], ArrayRef<Value *>(), AttributeMap(), fused->loc));

  for (Op *op : ordered) {
    if (op->is(OpKind::fused))
      inlineFused(op, yield);
    else
      op->moveBefore(yield);
  }
  for (Op *op : region->snapshot())
    for (const auto &result : op->results()) {
      SmallVector<Op *, 4> users(result->getUsers());
      Value *outer = nullptr;
      for (Op *user : users) {
        if (user->topLevel() == fused)
          continue;
        if (!outer) {
          outer = fused->addResult(result->name, result->type);
          outer->loc = result->loc;
          yield->addOperand(result.get());
        }
        for (unsigned i = 0; i < user->operands().size(); ++i)
          if (user->operand(i) == result.get())
            user->setOperand(i, outer);
      }
    }
  fused->symbol = regionName(*region);
  fused->loc = anchor(*fused)->loc;
  return fused;
}

void copyOps(const Block &from, Block &to, DenseMap<const Value *, Value *> &mapped) {
  for (const auto &op : from.ops()) {
    SmallVector<Value *, 4> operands;
    for (Value *operand : op->operands()) {
      auto it = mapped.find(operand);
      operands.push_back(it == mapped.end() ? operand : it->second);
    }
    Op *copy = to.insert(std::make_unique<Op>(op->def(), operands, op->attributes(), op->loc));
    copy->symbol = op->symbol;
    if (op->region())
      copyOps(*op->region(), *copy->createRegion(), mapped);
    for (const auto &result : op->results()) {
      mapped[result.get()] = copy->addResult(result->name, result->type);
      mapped[result.get()]->loc = result->loc;
    }
  }
}

std::unique_ptr<Function> copyFunction(const Function &function) {
  auto copy = std::make_unique<Function>(function.module(), function.name, function.loc);
  copy->attributes = function.attributes;
  copy->resultTypes = function.resultTypes;
  DenseMap<const Value *, Value *> mapped;
  for (const auto &argument : function.arguments)
    mapped[argument.get()] = copy->addArgument(argument->name, argument->type, argument->loc);
  copyOps(function.body, copy->body, mapped);
  return copy;
}

Op *fusedNorm(const Op &op) {
  if (!op.region() || !anchor(op)->is(OpKind::matmul))
    return nullptr;
  if (contractionsOf(op) > 1)
    return nullptr;
  const Value *x = anchor(op)->operand(0);
  Op *producer = x->definingOp();
  bool isInside = producer && producer->parentOp() == &op;
  return isInside && producer->is(OpKind::layernorm) && x->hasOneUse() ? producer : nullptr;
}

Error refreshTypes(Block &block) {
  for (const auto &op : block.ops()) {
    if (op->region()) {
      if (Error error = refreshTypes(*op->region()))
        return error;
      for (const auto &[result, yielded] : llvm::zip(op->results(), op->region()->terminator()->operands()))
        result->type = yielded->type;
    } else if (!op->has(Trait::Terminator)) {
      Expected<Type> type = inferType(*op);
      if (!type)
        return type.takeError();
      op->result()->type = *type;
    } else if (Function *function = block.parentOp() ? nullptr : block.function()) {
      function->resultTypes.clear();
      for (Value *value : op->operands())
        function->resultTypes.push_back(value->type);
    }
  }
  return Error::success();
}

} // namespace kiln
