// expand-layernorm: the statistics of a layernorm become ops of their own.
//
//                                                           %mean = row_mean %x
//   %y = layernorm %x, %w, %b {eps = 1e-05}           ->    %rstd = row_rstd %x, %mean {eps = 1e-05}
//                                                           %y    = normalize %x, %mean, %rstd, %w, %b
//
// For study: three kernels read what one could hold. option layernorms: `none` leaves everything as it is, `all`
// expands those that are no part of a region.
#include "ir/Builder.h"
#include "ops/OpTable.h"
#include "passes/Pass.h"

namespace kiln {

/// `ln_1_mean.3` for `ln_1.3`.
static std::string nameFor(Function &function, const Op &layernorm, StringRef ending) {
  return uniqueName(function, withEnding(layernorm.result()->name, ending));
}

static void expand(Function &function, Op &layernorm) {
  Builder builder(opTable(), &layernorm);
  builder.loc = layernorm.loc;
  Value *x = layernorm.operand(0);
  Value *mean = builder.create(OpKind::rowMean, nameFor(function, layernorm, "_mean"), {x});
  Value *rstd = builder.create(OpKind::rowRstd, nameFor(function, layernorm, "_rstd"), {x, mean},
                               {{"eps", *layernorm.attribute("eps")}});
  AttributeMap attributes;
  if (const Attribute *out = layernorm.attribute("out"))
    attributes.insert({"out", *out});
  std::string name = layernorm.result()->name;
  layernorm.result()->name = nameFor(function, layernorm, "_whole"); // for as long as it is there
  Value *normalized = builder.create(
      OpKind::normalize, name, {x, mean, rstd, layernorm.operand(1), layernorm.operand(2)}, std::move(attributes));
  layernorm.result()->replaceAllUsesWith(normalized);
  layernorm.erase();
}

static Error expandLayernorm(Module &module, const PassOptions &options) {
  if (options.getString("layernorms") == "none")
    return Error::success();
  for (const auto &function : module.functions)
    for (Op *op : function->body.snapshot())
      if (op->is(OpKind::layernorm))
        expand(*function, *op);
  return Error::success();
}

const PassDef expandLayernormPass = {
    .name = "expand-layernorm",
    .summary = "Computes mean, reciprocal deviation and normalisation of layernorms one after the other",
    .run = expandLayernorm,
    .options = {{"layernorms", Attribute::ident("none"), "which layernorms", {"none", "all"}}},
};

} // namespace kiln
