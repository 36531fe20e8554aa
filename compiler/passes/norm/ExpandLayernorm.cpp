// expand-layernorm: the statistics of a layernorm become ops of their own.
//
//                                                           %mean = row_mean %x
//   %y = layernorm %x, %w, %b {eps = 1e-05}           ->    %rstd = row_rstd %x, %mean {eps = 1e-05}
//                                                           %y    = normalize %x, %mean, %rstd, %w, %b
//
// For study only: three kernels read what one kernel could hold in registers. option layernorms: `none` leaves
// everything as it is, `all` expands those that are not part of a region.
//
// Refuses: a layernorm of one row without further dims, whose statistics would have no dim.
#include "ir/Builder.h"
#include "ops/OpTable.h"
#include "passes/Pass.h"

namespace kiln {

/// `ln_1_mean.3` for `ln_1.3`.
static std::string nameFor(TakenNames &names, const Op &layernorm, StringRef ending) {
  return names.unique(withEnding(layernorm.result()->name, ending));
}

static void expand(TakenNames &names, Op &layernorm) {
  Builder builder(opTable(), &layernorm);
  builder.loc = layernorm.loc;
  Value *x = layernorm.operand(0);
  Value *mean = builder.create(OpKind::rowMean, nameFor(names, layernorm, "_mean"), {x});
  Value *rstd = builder.create(OpKind::rowRstd, nameFor(names, layernorm, "_rstd"), {x, mean},
                               {{"eps", *layernorm.attribute("eps")}});
  AttributeMap attributes;
  if (const Attribute *out = layernorm.attribute("out"))
    attributes.insert({"out", *out});
  std::string name = layernorm.result()->name;
  layernorm.result()->name.clear(); // its successor gets the name
  SmallVector<Value *, 5> operands = {x, mean, rstd};
  llvm::append_range(operands, layernorm.operands().drop_front());
  Value *normalized = builder.create(OpKind::normalize, name, operands, std::move(attributes));
  layernorm.result()->replaceAllUsesWith(normalized);
  layernorm.erase();
}

static Error expandLayernorm(Module &module, const PassOptions &options) {
  if (options.getString("layernorms") == "none")
    return Error::success();
  for (const auto &function : module.functions) {
    TakenNames names(*function);
    for (Op *op : function->body.snapshot())
      if (op->is(OpKind::layernorm) && op->result()->type.rank() > 1)
        expand(names, *op);
  }
  return Error::success();
}

const PassDef expandLayernormPass = {
    .name = "expand-layernorm",
    .summary = "Computes mean, reciprocal deviation and normalisation of layernorms one after the other",
    .run = expandLayernorm,
    .options = {{"layernorms", Attribute::ident("none"), "which layernorms", {"none", "all"}}},
};

} // namespace kiln
