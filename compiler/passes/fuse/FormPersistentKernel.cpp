// form-persistent-kernel: all steps of @decode become one kernel, whose blocks stay from phase to phase.
//
//   %x.0 = embed …                                       %logits = fused @decode_layers(%tokens, …) {
//   %q.0, … = fused @layernorm_matmul_bias_…(…) {…}        %x.0      = embed %tokens, …
//   %attn.0 = fused @attention(…) {…}                      %ln_1.0   = layernorm %x.0 …
//   …                                                ->    %qkv_mm.0 = matmul %ln_1.0, %qkv_w.0 …
//   %logits = fused @layernorm_matmul_slice(…) {…}         …
//   return %logits                                         yield %logits
//                                                        }
//
// A kernel for each product pays for its launch, and waits for its first weights and for all blocks of the one before.
// One kernel for all of them exchanges what it must between blocks, while weights are on their way all the time.
//
// Modules without @decode are left alone. Refuses, as an error at the first op that does not fit: modules with @verify,
// whose logits must have the bits of @decode's; layers other than those of kernels/families/DecodeRegion.h; and what
// the family decode_layers does not run: another target than Hopper, elements of 32 bits, heads of other sizes than 64,
// more than 8 sequences.
//
// option when_faster: leaves alone what it would refuse, and modules for several sequences, for which a kernel for each
// product is as fast or faster.
//
// option for_one: with when_faster, a module for several sequences gets the kernel beside @decode, as @generate for one
// sequence: func @generate(…) attributes {sequences = 1}. Its sums have another order than those of @decode, so that a
// row's bits depend on whether others run beside it.
#include "ir/Verifier.h"
#include "kernels/cost/Problem.h"
#include "kernels/families/DecodeRegion.h"
#include "kernels/families/Families.h"
#include "passes/Pass.h"
#include "passes/Rewrite.h"
#include "support/Diagnostic.h"

namespace kiln {

/// The most sequences for which the kernel is the faster way. On an H200, it is as fast for two of 124M and slower for
/// two of 1558M (docs/performance.md).
constexpr int64_t mostFaster = 1;

static Error formKernel(Function &decode, const Target &target) {
  std::vector<Op *> steps;
  for (Op *op : decode.body.snapshot())
    if (!op->has(Trait::Terminator))
      steps.push_back(op);
  if (steps.empty() || !canFuse(steps))
    return makeError(decode.loc, "expected an embedding and layers behind it");
  Op *fused = fuseOps(steps);
  fused->symbol = "decode_layers";
  Expected<DecodeRegion> region = DecodeRegion::read(*fused);
  if (!region)
    return region.takeError();
  if (fused->results().size() != 1 || !decodeLayersFamily.runs(*fused, target, upperBounds(*fused)))
    return opError(
        *fused,
        "expected a model that the kernel decode_layers runs on " + target.name +
            ": 16-bit elements, heads of 64 channels, at most 8 sequences (--max-batch), a plan for Hopper alone");
  return Error::success();
}

/// Puts the kernel in the place of the function's ops if it runs them and is faster. `forOne`: beside a function for
/// which it is not, where it is for one sequence.
static void formIfFaster(Function &decode, const Target &target, bool forOne) {
  const ArrayRef<Dim> shape = decode.arguments.empty() ? ArrayRef<Dim>() : decode.arguments.front()->type.shape;
  if (shape.empty())
    return;
  const bool isFaster = shape.front().upperBound() <= mostFaster;
  if (!isFaster && !(forOne && shape.front() == Dim(decode.module().batchDim())))
    return;
  auto formed = copyFunction(decode);
  if (!isFaster) {
    formed->name = entryName(Entry::Generate).str();
    formed->attributes.insert_or_assign(FunctionAttribute::sequences.str(), mostFaster);
  }
  if (Error error = formKernel(*formed, target)) {
    llvm::consumeError(std::move(error));
    return;
  }
  if (!isFaster) {
    decode.module().functions.push_back(std::move(formed));
    return;
  }
  for (auto &function : decode.module().functions)
    if (function.get() == &decode) {
      function = std::move(formed);
      return;
    }
}

static Error formPersistentKernel(Module &module, const PassOptions &options) {
  Expected<const Target *> target = targetNamed(options.getString("target"), module);
  if (!target)
    return target.takeError();
  Function *decode = module.findFunction(Entry::Decode);
  if (!decode)
    return Error::success();
  if (options.getBool("when_faster")) {
    if (!module.findFunction(Entry::Verify))
      formIfFaster(*decode, **target, options.getBool("for_one"));
    return Error::success();
  }
  // The kernels of @verify would give other bits.
  if (const Function *verify = module.findFunction(Entry::Verify))
    return opError(*verify->body.ops().front(),
                   "expected no @verify (--draft-tokens) beside a @decode that is one kernel");
  return formKernel(*decode, **target);
}

const PassDef formPersistentKernelPass = {
    .name = "form-persistent-kernel",
    .summary = "Makes one kernel of all layers of a decode step",
    .run = formPersistentKernel,
    .options = {{"target", Attribute::ident("sm_90a"), "the GPU that the plan is for"},
                {"when_faster", false, "only for one sequence, and nothing is refused"},
                {"for_one", false, "with when_faster: for one sequence beside @decode for several, as @generate"}},
};

} // namespace kiln
