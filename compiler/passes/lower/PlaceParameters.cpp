// place-parameters: chooses the weights that kernels hold in constant memory.
//
//   %y = layernorm %x, %g, %b {eps = 1e-05, kernel = layernorm, …}
//     -> %y = layernorm %x, %g, %b {constants = ["g", "b"], eps = 1e-05, kernel = layernorm, …}
//
// One access to constant memory gives all threads of a warp the value at one address, and is repeated for each
// different address: this is fast where each thread has a row of its own, and slow where a warp shares a row. option
// constants: none; layernorm, its weight and bias; or vectors, every weight of one dimension that a kernel reads,
// biases too.
//
// A kernel has 64 KB of constant memory. An op's weights are placed there in the order in which the op reads them, as
// far as they fit; the others stay in global memory. A step that a library runs has none.
//
// Refuses: options that place no weight of any kernel of the module: an error.
#include "kernels/families/Families.h"
#include "ops/Region.h"
#include "passes/Pass.h"
#include "support/Diagnostic.h"
#include "support/model/LaunchLimits.h"

namespace kiln {

/// Vectors of four begin at multiples of this.
constexpr int64_t constantAlignment = 16;

/// Whether the value is the weight or bias of a layernorm in this op, including a layernorm that expand-layernorm has
/// expanded.
static bool isOfLayernorm(const Value &value, const Op &op) {
  return llvm::any_of(value.getUsers(), [&](const Op *user) {
    if (user->topLevel() != &op)
      return false;
    unsigned first = user->is(OpKind::layernorm) ? 1 : user->is(OpKind::normalize) ? 3 : 0;
    return first && llvm::is_contained(user->operands().drop_front(first), &value);
  });
}

static Attribute::List constantsOf(const Op &op, StringRef choice) {
  Attribute::List constants;
  int64_t used = 0;
  for (const Value *input : op.inputs()) {
    if (!input->isWeight() || input->type.rank() != 1 || (choice == "layernorm" && !isOfLayernorm(*input, op)))
      continue;
    int64_t bytes = *input->type.lastDim().asConstant() * dtypeSize(input->type.dtype);
    bytes = static_cast<int64_t>(llvm::alignTo(static_cast<uint64_t>(bytes), constantAlignment));
    if (used + bytes > mostConstantBytes)
      continue;
    used += bytes;
    constants.push_back(Attribute::text(input->name));
  }
  return constants;
}

static Error placeParameters(Module &module, const PassOptions &options) {
  StringRef choice = options.getString("constants");
  bool isEmpty = true;
  for (const auto &function : module.functions)
    for (const auto &op : function->body.ops()) {
      op->removeAttribute("constants");
      const KernelFamily *family = findKernelFamily(op->identAttribute("kernel"));
      if (choice == "none" || !family || family->form == KernelForm::Library)
        continue;
      Attribute::List constants = constantsOf(*op, choice);
      if (constants.empty())
        continue;
      op->setAttribute("constants", std::move(constants));
      isEmpty = false;
    }
  if (choice != "none" && isEmpty)
    return makeError(module.loc, "place-parameters: constants: expected kernels that read a weight of " + choice +
                                     " of at most " + Twine(mostConstantBytes) + " bytes, found none");
  return Error::success();
}

const PassDef placeParametersPass = {
    .name = "place-parameters",
    .summary = "Puts weights of one dimension in the constant memory of kernels",
    .run = placeParameters,
    .options = {{"constants",
                 Attribute::ident("none"),
                 "which weights kernels have in constant memory",
                 {"none", "layernorm", "vectors"}}},
    .sets = {"constants"},
};

} // namespace kiln
