// select-kernels: chooses the kernel template that runs each op of a function's body.
//
//   %y = fused @matmul_bias(%x, %w, %b) {…} : f32[B,T,768]
//     -> %y = fused @matmul_bias(%x, %w, %b) {…} {kernel = gemm_simt} : f32[B,T,768]
//
// The first family of the table (kernels/families/KernelFamily.cpp) that accepts the op at the bounds of its dims runs
// it. option target: the GPU, as graphs/targets/ names it; it becomes the module's attribute `target`.
//
// option kernels: preferred families for kinds of ops, by the name of the op or of the region's anchor: {matmul =
// gemm_naive, qk = attention_simt}. A preferred family runs the ops that it accepts; for the others the choice is the
// usual one. It becomes the module's attribute `kernels`, so that choose-tiles respects it.
//
// option matmul: runs the matrix products of prompts that cuBLASLt supports with their bias, gelu or residual by:
// generated (kernels of this project), cublaslt (steps of the plan that the library runs; their biases are rounded to
// the type of the result, which the library requires), or auto, whichever the families' models predict to be faster in
// total for one sequence of 1024 tokens and for the largest batch of them.
//
// Refuses: an op that no family accepts: an error at the op. A preferred family that can run no op of the module.
#include "ir/Builder.h"
#include "ir/Verifier.h"
#include "kernels/cost/Problem.h"
#include "kernels/families/Families.h"
#include "kernels/families/matmul/LibraryMatmul.h"
#include "ops/OpTable.h"
#include "ops/Region.h"
#include "passes/Pass.h"
#include "support/Diagnostic.h"

namespace kiln {

/// Prompts of up to 1024 tokens: one of them, or as many as there may be.
static DimBinding prompts(const Op &op, bool one) {
  DimBinding dims = upperBounds(op);
  const Module &module = op.parent()->function()->module();
  for (const auto &dim : module.dims)
    dims[dim->name] = dim.get() == module.batchDim() ? (one ? dim->min : dim->max) : std::min<int64_t>(dim->max, 1024);
  return dims;
}

static bool wantsLibrary(const Op &op, StringRef choice, const Target &target) {
  if (!libraryMatmul(op))
    return false;
  if (preferredFamily(op) || choice == "generated")
    return preferredFamily(op) == &libraryMatmulFamily;
  // The step is the same at every batch: its gain at one end must outweigh its loss at the other.
  return choice == "cublaslt" ||
         librarySpeedup(op, target, prompts(op, true)) * librarySpeedup(op, target, prompts(op, false)) > 1;
}

/// Gives the op a bias of its result's type: the same tensor of the checkpoint, as another weight, which the other
/// functions use, too.
static void narrowBias(Module &module, Op &op) {
  LibraryMatmul matmul = *libraryMatmul(op);
  DType dtype = matmul.out->type.dtype;
  if (!matmul.bias || matmul.bias->type.dtype == dtype)
    return;
  WeightRecipe recipe = *matmul.bias->recipe;
  recipe.dtype = dtype;
  auto known = llvm::find_if(module.weights, [&](const auto &weight) { return *weight->recipe == recipe; });
  Value *narrow = known == module.weights.end() ? nullptr : known->get();
  if (!narrow) {
    std::string name = TakenNames(module).unique(withEnding(matmul.bias->name, ("_" + dtypeName(dtype)).str()));
    narrow = module.addWeight(name, matmul.bias->type.withDType(dtype), recipe, matmul.bias->loc);
  }
  for (const auto &inner : op.region()->ops())
    for (unsigned i = 0; i < inner->operands().size(); ++i)
      if (inner->operand(i) == matmul.bias)
        inner->setOperand(i, narrow);
}

/// Writes the preferences into the module. Error: an unknown name.
static Error setPreferences(Module &module, const AttributeMap &kernels) {
  for (const auto &[kind, name] : kernels) {
    if (!opTable().find(kind))
      return makeError(module.loc, "select-kernels: kernels: expected the name of an op, got '" + kind + "'");
    if (name.kind() != Attribute::Kind::Ident || !findKernelFamily(name.asString()))
      return makeError(module.loc,
                       "select-kernels: kernels: expected a family of kernels for " + kind + ", got " + name.str());
  }
  if (kernels.empty())
    module.attributes.erase(ModuleAttribute::kernels.str());
  else
    module.attributes.insert_or_assign(ModuleAttribute::kernels.str(), kernels);
  return Error::success();
}

/// Whether the family runs the op, or will when there are few rows.
static bool isRunBy(const Op &op, const KernelFamily &family, const Target &target) {
  const Attribute *kernel = op.attribute("kernel");
  return (kernel && findKernelFamily(kernel->asString()) == &family) || family.runs(op, target, boundsForRows(op, 1));
}

/// Checks that every preference applies to an op. Error: the first that does not.
static Error checkPreferences(const Module &module, const AttributeMap &kernels, const Target &target) {
  for (const auto &[kind, name] : kernels) {
    auto takes = [&, &kind = kind, &name = name](const auto &op) {
      return !op->has(Trait::Terminator) && anchor(*op)->mnemonic() == kind &&
             isRunBy(*op, *findKernelFamily(name.asString()), target);
    };
    if (llvm::none_of(module.functions, [&](const auto &f) { return llvm::any_of(f->body.ops(), takes); }))
      return makeError(module.loc, "select-kernels: kernels: expected a " + kind + " that " + name.asString() +
                                       " runs on " + target.name +
                                       (module.boolAttribute(ModuleAttribute::portable)
                                            ? " and on the other GPUs that the plan is for, found none"
                                            : ", found none"));
  }
  return Error::success();
}

static Error selectKernels(Module &module, const PassOptions &options) {
  Expected<const Target *> target = targetNamed(options.getString("target"), module);
  if (!target)
    return target.takeError();
  module.attributes.insert_or_assign(ModuleAttribute::target.str(), Attribute::ident((*target)->name));
  if (Error error = setPreferences(module, options.getDict("kernels")))
    return error;
  for (const auto &function : module.functions)
    for (const auto &op : function->body.ops()) {
      if (op->has(Trait::Terminator))
        continue;
      const KernelFamily *family = nullptr;
      if (wantsLibrary(*op, options.getString("matmul"), **target)) {
        narrowBias(module, *op);
        family = &libraryMatmulFamily;
      } else {
        family = selectFamily(*op, **target, boundsToChooseFor(*op));
      }
      if (!family)
        return opError(*op, "no kernel of " + (*target)->name + " runs this");
      op->setAttribute("kernel", Attribute::ident(family->name));
    }
  return checkPreferences(module, options.getDict("kernels"), **target);
}

const PassDef selectKernelsPass = {
    .name = "select-kernels",
    .summary = "Chooses the kernel template that runs each op",
    .run = selectKernels,
    .options = {{"target", Attribute::ident("sm_90a"), "the GPU that the plan is for"},
                {"matmul",
                 Attribute::ident("generated"),
                 "what runs the matrix products of prompts",
                 {"generated", "cublaslt", "auto"}},
                {"kernels", AttributeMap(), "families that come first, by kind of op: {matmul = gemm_simt}"}},
    .sets = {"kernel"},
};

} // namespace kiln
