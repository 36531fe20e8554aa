// fuse-epilogue: applies the ops on a matmul's result to the accumulator, before it is stored, and those on a sum of
// ranks to the sum.
//
//   %mm  = matmul %x, %w                   %act = fused @matmul_bias_gelu(%x, %w, %b) {
//   %add = add %mm, %b                       %mm  = matmul %x, %w
//   %act = gelu %add {approx = tanh}   ->    %add = add %mm, %b
//                                            %act = gelu %add {approx = tanh}
//                                            yield %act
//                                          }
//
// Takes pointwise ops (bias, gelu, residual) as long as each is the only user of the value before it, then layout ops
// (split_heads, slice) if they are all the users of the last value, and a cache_write or last_row that is the only user
// of one of those: the kernel stores query, key and value in the layout that attention reads. A last_row that selects
// the rows of another activation comes with its addition. Behind an all_reduce, only pointwise ops. option residual:
// whether to include the addition of another activation.
//
// Refuses: an intermediate value with another user, a matmul result that is not operand 0, a causal mask, another
// pointwise op after a cast (the cast's rounding is intended), a move past an op that needs a fused value, and moves
// that would part the vectors in which kernels have columns (a head size of 6).
#include "kernels/cost/Problem.h"
#include "passes/Pass.h"
#include "passes/Rewrite.h"

namespace kiln {

/// The pointwise op that is the only user of `value`, as its operand 0.
static Op *nextPointwise(const Value &value, bool takesResidual) {
  if (!value.hasOneUse())
    return nullptr;
  Op *user = value.getUsers()[0];
  bool fits = !user->parentOp() && user->has(Trait::Pointwise) && !user->is(OpKind::causalMask) &&
              user->operand(0) == &value && user->result()->type.shape == value.type.shape;
  bool isResidual = fits && user->operands().size() == 2 && user->operand(1)->type.rank() > 1;
  return fits && (takesResidual || !isResidual) ? user : nullptr;
}

/// Whether the op stores `moved`, or a part of it, where others read it.
static bool isLastMove(const Op &op, const Value &moved) {
  return !op.parentOp() && ((op.is(OpKind::cacheWrite) && op.operand(1) == &moved) ||
                            (op.is(OpKind::lastRow) && op.operand(0) == &moved));
}

/// The layout ops that are all the users of `value`, each with the cache_write or last_row after it. None if a kernel
/// of the product would part vectors.
static SmallVector<Op *, 8> layoutUsers(const Value &value, const Op &product) {
  SmallVector<Op *, 8> group;
  for (Op *user : value.getUsers()) {
    if (user->parentOp() || !(user->is(OpKind::splitHeads) || user->is(OpKind::slice)) ||
        !keepsVectorsWhole(*user, product))
      return {};
    group.push_back(user);
    const Value &moved = *user->result();
    Op *last = moved.hasOneUse() ? moved.getUsers()[0] : nullptr;
    if (last && isLastMove(*last, moved))
      group.push_back(last);
  }
  return group;
}

static SmallVector<Op *, 8> matchEpilogue(Op &producer, bool takesResidual) {
  SmallVector<Op *, 8> group = {&producer};
  Value *value = producer.result();
  while (Op *next = nextPointwise(*value, takesResidual)) {
    if (next->operands().size() == 2 && producer.is(OpKind::matmul))
      if (Op *rows = soleProducer(*next->operand(1), OpKind::lastRow))
        group.push_back(rows);
    group.push_back(next);
    value = next->result();
    if (next->is(OpKind::cast))
      break;
  }
  if (producer.is(OpKind::matmul))
    llvm::append_range(group, layoutUsers(*value, producer));
  return group;
}

static Error fuseEpilogue(Module &module, const PassOptions &options) {
  for (const auto &function : module.functions)
    for (Op *op : function->body.snapshot()) {
      if (!op->is(OpKind::matmul) && !op->is(OpKind::allReduce))
        continue;
      SmallVector<Op *, 8> group = matchEpilogue(*op, options.getBool("residual"));
      if (group.size() > 1 && canFuse(group))
        fuseOps(group);
    }
  return Error::success();
}

const PassDef fuseEpiloguePass = {
    .name = "fuse-epilogue",
    .summary =
        "Fuses bias, activation, residual and the move to heads and cache into the matmul or sum of ranks before them",
    .run = fuseEpilogue,
    .options = {{"residual", true, "take the addition of another activation too"}},
};

} // namespace kiln
