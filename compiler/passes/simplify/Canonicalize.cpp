// canonicalize: gives equivalent ops one form, so that later passes need to match only one pattern.
//
//   %y = scale %x {factor = 1.0}             ->   uses of %y become uses of %x
//   %y = cast %x {to = f32}   (x is f32)     ->   uses of %y become uses of %x
//   %y = slice %x {size = N}  (x has N)      ->   uses of %y become uses of %x
//   %a = scale %x {factor = 2.0}
//   %b = scale %a {factor = 3.0}             ->   %b = scale %x {factor = 6.0}
//   %y = add %x, %mm  (%mm a contraction)    ->   %y = add %mm, %x
//   %s = slice %x {size = N}
//   %y = all_gather %s {size = M}            ->   %y = all_gather %x {size = M}
//
// Refuses: an op whose result does not exactly equal its replacement; a scale with another user of the inner scale (the
// inner one would still be computed) or a product of factors that a float cannot represent; swapping the operands of an
// add whose types differ (a bias); reading a state later than before (it may have been written since); ops of fused
// regions, whose names say what is in them.
#include "ir/Builder.h"
#include "passes/Pass.h"

#include <cmath>

namespace kiln {

/// The operand that the op's result always equals, or null.
static Value *foldToOperand(const Op &op) {
  bool isIdentity = (op.is(OpKind::scale) && op.floatAttribute("factor") == 1.0) ||
                    ((op.is(OpKind::cast) || op.is(OpKind::slice)) && op.operand(0)->type == op.result()->type);
  return isIdentity && !op.operand(0)->isState() ? op.operand(0) : nullptr;
}

static void mergeScales(Op &op) {
  Op *inner = op.operand(0)->definingOp();
  if (!op.is(OpKind::scale) || !inner || !inner->is(OpKind::scale) || !inner->result()->hasOneUse() ||
      inner->operand(0)->isState())
    return;
  double factor = op.floatAttribute("factor") * inner->floatAttribute("factor");
  if (!std::isnormal(factor))
    return;
  op.setAttribute("factor", factor);
  op.setOperand(0, inner->operand(0));
  inner->erase();
}

/// Whether a value comes from a contraction through pointwise ops, each with one user: the side of an add that an
/// epilogue starts from.
static bool followsContraction(const Value &value) {
  const Op *op = value.definingOp();
  if (!op || !value.hasOneUse())
    return false;
  return op->has(Trait::Contraction) || (op->has(Trait::Pointwise) && followsContraction(*op->operand(0)));
}

static void orderOperands(Op &op) {
  if (!op.has(Trait::Commutative) || !(op.operand(0)->type == op.operand(1)->type))
    return;
  Value *a = op.operand(0), *b = op.operand(1);
  if (followsContraction(*a) || !followsContraction(*b))
    return;
  op.setOperand(0, b);
  op.setOperand(1, a);
}

/// all_gather drops what a share has room for beyond its part, and so what a slice dropped.
static void gatherUnsliced(Op &op) {
  Op *slice = op.operands().empty() ? nullptr : op.operand(0)->definingOp();
  if (!op.is(OpKind::allGather) || !slice || !slice->is(OpKind::slice) || slice->operand(0)->isState())
    return;
  op.setOperand(0, slice->operand(0));
  if (slice->result()->getUsers().empty())
    slice->erase();
}

static Error canonicalize(Module &module, const PassOptions &) {
  for (const auto &function : module.functions)
    for (Op *op : function->body.snapshot()) {
      if (op->has(Trait::Terminator) || op->is(OpKind::fused))
        continue;
      mergeScales(*op);
      gatherUnsliced(*op);
      if (Value *same = foldToOperand(*op)) {
        op->result()->replaceAllUsesWith(same);
        op->erase();
        continue;
      }
      orderOperands(*op);
    }
  return Error::success();
}

const PassDef canonicalizePass = {
    .name = "canonicalize",
    .summary = "Removes ops that change nothing and orders operands, so that later passes match one pattern",
    .run = canonicalize,
};

} // namespace kiln
