// defer-norm: a product in tensor cores multiplies rows as they are, and normalises the sums.
//
//                                                         weight %s : f32[3072] = "w"[768,3072] -> … -> sum bf16
//   %y = fused @layernorm_matmul_bias(%x, %w, %c) {       %mean, %rstd = fused @row_mean_row_rstd(%x) {…}
//     %ln = layernorm %x {eps = 1e-05}                    %y = fused @matmul_norm_bias(%x, %w, %mean, %rstd, %s, %c) {
//     %mm = matmul %ln, %w                          ->      %mm   = matmul %x, %w
//     %a  = add %mm, %c                                     %mm_n = normalize_product %mm, %mean, %rstd, %s
//     yield %a                                              %a    = add %mm_n, %c
//   }                                                       yield %a
//                                                         }
//
// For ((x - mean)·rstd)·W = (x·W - mean·s)·rstd, where s has the sums of W's columns (its rows, as stored). Only the
// statistics of a row go through memory, not its normalised elements. The sums are those of the rounded weight, so that
// a large mean cancels but for the rounding of f32; and an operand that is not rounded once more makes the result
// rather more exact than split-norm does. gather-statistics takes the statistics from the kernel that makes x. With f32
// or tf32 operands neither holds, so that split-norm is left to them.
//
// option target: the GPU, as graphs/targets/ names it.
//
// Refuses: what split-norm refuses; layernorms with parameters, or of another type than the weight; operands of more
// than 16 bits; weights that are not the transposed tensor of a checkpoint.
#include "ir/Builder.h"
#include "kernels/families/Families.h"
#include "ops/OpTable.h"
#include "ops/Region.h"
#include "passes/Pass.h"
#include "passes/Rewrite.h"

namespace kiln {

static bool canDefer(const Op &op, const Op &layernorm) {
  const Type &x = layernorm.operand(0)->type;
  const Value &weight = *anchor(op)->operand(1);
  return layernorm.operands().size() == 1 && x == layernorm.result()->type && x.rank() > 1 &&
         x.dtype == weight.type.dtype && dtypeSize(x.dtype) == 2 && weight.recipe->transpose;
}

/// Adds the sums of the weight's columns as the checkpoint has them, one for each column of the product, to the module
/// and to `known`.
static void addSums(Module &module, TakenNames &names, std::map<const Value *, Value *> &known, const Value &weight) {
  Value *&sums = known[&weight];
  if (sums)
    return;
  WeightRecipe recipe = *weight.recipe;
  recipe.sum = recipe.dtype;
  recipe.transpose = false;
  recipe.shape = {recipe.shape[0]};
  recipe.dtype = DType::F32;
  Type type(recipe.dtype, {weight.type.shape[0]});
  sums = module.addWeight(names.unique(withEnding(weight.name, "_sums")), type, std::move(recipe), weight.loc);
}

/// Normalises the product of the region instead of its operand, with statistics that are computed in front of it.
static void defer(Op &op, Op &layernorm, Value *sums, TakenNames &names) {
  Op &matmul = *layernorm.result()->getUsers()[0];
  Value *x = layernorm.operand(0), *product = matmul.result();
  auto named = [&](const Value &value, StringRef ending) { return names.unique(withEnding(value.name, ending)); };
  Builder before(opTable(), &op), behind(opTable(), matmul.next());
  before.loc = layernorm.loc;
  behind.loc = layernorm.loc;
  Value *mean = before.create(OpKind::rowMean, named(*layernorm.result(), "_mean"), {x});
  Value *rstd = before.create(OpKind::rowRstd, named(*layernorm.result(), "_rstd"), {x, mean},
                              {{"eps", *layernorm.attribute("eps")}});
  SmallVector<Op *, 4> readers(product->getUsers());
  Value *normed = behind.create(OpKind::normalizeProduct, named(*product, "_norm"), {product, mean, rstd, sums});
  for (Op *reader : readers)
    for (unsigned i = 0; i < reader->operands().size(); ++i)
      if (reader->operand(i) == product)
        reader->setOperand(i, normed);
  matmul.setOperand(0, x);
  names.release(layernorm.result()->name);
  layernorm.erase();
  fuseOps({mean->definingOp(), rstd->definingOp()});
  op.symbol = regionName(*op.region());
}

static Error deferNorm(Module &module, const PassOptions &options) {
  Expected<const Target *> target = targetNamed(options.getString("target"), module);
  if (!target)
    return target.takeError();
  TakenNames globals(module);
  std::map<const Value *, Value *> sums;
  for (const auto &function : module.functions) {
    std::vector<std::pair<Op *, Op *>> found; // regions and their layernorms
    for (Op *op : function->body.snapshot())
      if (Op *layernorm = fusedNorm(*op); layernorm && wantsNormOutside(*op, **target) && canDefer(*op, *layernorm)) {
        addSums(module, globals, sums, *anchor(*op)->operand(1));
        found.push_back({op, layernorm});
      }
    TakenNames names(*function);
    for (auto [op, layernorm] : found)
      defer(*op, *layernorm, sums[anchor(*op)->operand(1)], names);
  }
  return Error::success();
}

const PassDef deferNormPass = {
    .name = "defer-norm",
    .summary = "Normalises the sums of products in tensor cores, not their operands",
    .run = deferNorm,
    .options = {{"target", Attribute::ident("sm_90a"), "the GPU that the plan is for"}},
};

} // namespace kiln
