// fuse-score: scores tokens by the accumulators of the product that computes their logits, which are then not stored.
//
//   %logits = fused @matmul_slice(%x, %wte) {…}   %p, %best = fused @matmul_slice_score(%x, %wte, %targets) {
//   %p      = log_probability %logits, %targets     %logits_pad = matmul %x, %wte
//   %best   = argmax %logits                   ->   %logits     = slice %logits_pad
//                                                   %p          = log_probability %logits, %targets
//                                                   %best       = argmax %logits
//                                                   yield %p, %best
//                                                 }
//
// The logits of all rows of a prompt are by far the largest tensor of a model: 1.6 GB for 8192 tokens of GPT-2's
// vocabulary, while the results are a few bytes a row. Takes one log_probability of given ids, one argmax, and one
// log_probability of these. Logits that no product computes are read once by one kernel.
//
// Refuses: a product whose logits are needed otherwise, and ops that are fused already.
#include "kernels/families/matmul/TokenScores.h"
#include "ops/Region.h"
#include "passes/Pass.h"
#include "passes/Rewrite.h"

namespace kiln {

/// The ops that score the tokens of `logits`, each kind once.
static SmallVector<Op *, 8> scoresOf(const Value &logits) {
  Op *ofTarget = nullptr, *best = nullptr, *ofBest = nullptr;
  for (Op *user : logits.getUsers())
    if (user->is(OpKind::argmax) && !user->parentOp() && !best)
      best = user;
  for (Op *user : logits.getUsers()) {
    if (!user->is(OpKind::logProbability) || user->parentOp())
      continue;
    Op *&place = best && user->operand(1) == best->result() ? ofBest : ofTarget;
    place = place ? place : user;
  }
  SmallVector<Op *, 8> group = {ofTarget, best, ofBest};
  llvm::erase(group, nullptr);
  return group;
}

/// The ops, plain or fused, that compute the logits by a product, if nothing but `scores` reads them.
static SmallVector<Op *, 2> productOf(const Value &logits, ArrayRef<Op *> scores) {
  Op *producer = logits.definingOp();
  if (!producer || !llvm::all_of(logits.getUsers(), [&](Op *user) { return llvm::is_contained(scores, user); }))
    return {};
  SmallVector<Op *, 2> group = {producer};
  if (producer->is(OpKind::slice))
    if (Op *product = soleProducer(*producer->operand(0)))
      group.push_back(product);
  bool isProduct = anchor(*group.back())->is(OpKind::matmul) && group.back()->results().size() == 1;
  return isProduct ? group : SmallVector<Op *, 2>();
}

static Error fuseScore(Module &module, const PassOptions &) {
  for (const auto &function : module.functions)
    for (Op *op : function->body.snapshot()) {
      if (!isScore(*op) || op->parentOp())
        continue;
      const Value &logits = *op->operand(0);
      SmallVector<Op *, 8> scores = scoresOf(logits), all = scores;
      llvm::append_range(all, productOf(logits, scores));
      if (all.size() > scores.size() && canFuse(all))
        fuseOps(all);
      else if (scores.size() > 1 && canFuse(scores))
        fuseOps(scores);
    }
  return Error::success();
}

const PassDef fuseScorePass = {
    .name = "fuse-score",
    .summary = "Fuses log-probabilities and the choice of the best token into the product that computes the logits",
    .run = fuseScore,
};

} // namespace kiln
