#include "tools/ladder/StepGroups.h"

#include "ops/Region.h"

namespace kiln {

static bool isAbout(const Op &step, std::initializer_list<OpKind> kinds) {
  return llvm::any_of(kinds, [&](OpKind kind) { return anchor(step)->is(kind); });
}

static bool isActivation(const Op &step) { return !anchor(step)->def().activationNames.empty(); }

bool isProductOrElementwise(const Op &step) {
  return isAbout(step, {OpKind::matmul, OpKind::add}) || isActivation(step);
}

bool isAttention(const Op &step) {
  return isAbout(step, {OpKind::splitHeads, OpKind::qk, OpKind::scale, OpKind::causalMask, OpKind::softmax, OpKind::pv,
                        OpKind::mergeHeads});
}

bool isScores(const Op &step) { return isAbout(step, {OpKind::qk}); }

bool isSoftmax(const Op &step) { return isAbout(step, {OpKind::softmax}); }

bool isNorm(const Op &step) {
  return isAbout(step, {OpKind::layernorm, OpKind::rowMean, OpKind::rowRstd, OpKind::normalize});
}

bool isElementwise(const Op &step) {
  return isActivation(step) || isAbout(step, {OpKind::embed, OpKind::add, OpKind::splitHeads, OpKind::mergeHeads});
}

/// Whether the step is a product whose weight is made from this tensor of the checkpoint.
static bool hasWeight(const Op &step, StringRef source) {
  const Op *product = anchor(step);
  if (!product->is(OpKind::matmul))
    return false;
  const Value *weight = product->operand(1);
  return weight->recipe && StringRef(weight->recipe->source).ends_with(source);
}

bool isFirstInMlp(const Op &step) { return hasWeight(step, "mlp.c_fc.weight"); }

bool isSecondInMlp(const Op &step) { return hasWeight(step, "mlp.c_proj.weight"); }

} // namespace kiln
