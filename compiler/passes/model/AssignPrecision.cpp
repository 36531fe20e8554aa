// assign-precision: stores weights, activations and caches in a narrower type.
//
//   weight %w : f32[768,3072] = "w"        weight %w : bf16[768,3072] = "w"
//   %mm = matmul %x, %w : f32[B,T,3072]    %mm = matmul %x, %w : bf16[B,T,3072]
//   %s  = qk %q, %k : f32[B,12,T,T]   ->   %s  = qk %q, %k {out = f32} : f32[B,12,T,T]
//
// Sums, layernorm statistics and softmax stay in f32: they never leave registers in a fused kernel. Weights of rank 1
// (biases, layernorm) also stay in f32: their size is negligible, their rounding error is not. A matmul with an
// attribute `out` (the logits) keeps it. option dtype: the type; f32 leaves everything as it is; tf32 stores f32, and
// lets tensor cores round the factors of matrix products (`precision = tf32`). option attention_tf32: with tf32, also
// round the factors of QK^T and PV. option narrow_softmax: with a type of 16 bits, softmax's results have that type too
// (`out`), where attention is not fused: then both factors of PV have one type, which libraries require.
//
// Parts of a sum over ranks (all_reduce) with few tokens per sequence stay in f32, and only the sum is rounded. With
// many tokens they are stored in `dtype`, too, as cuBLAS and NCCL have it: then half as many bytes cross the link.
//
// option residual_f32: where the residual stream, from the embedding on, stays in f32 between kernels:
//
//   %x = embed %tokens, %wte, %wpe               %x = embed %tokens, %wte, %wpe {out = f32} : f32[B,1,768]
//   %n = layernorm %x, %g, %b {eps = 1e-05}  ->  %n = layernorm %x, %g, %b {eps = 1e-05, out = bf16} : bf16[B,1,768]
//
// Otherwise every layer rounds it twice, which causes most of the error of a 16-bit model. With one token per sequence
// (one_token) its size is negligible against the weights; with many tokens it would cost as much as an activation.
// auto: one_token; but never if the GPU (option target) has kernels that copy the rows of products as they are and so
// cannot convert them (gemv_mma_warps, gemv_wgmma), unless the plan is for other GPUs too.
//
// Refuses: modules whose weights are not f32 (precision was assigned before): an error.
#include "kernels/cost/Problem.h"
#include "kernels/families/KernelFamily.h"
#include "passes/Pass.h"
#include "passes/Rewrite.h"
#include "support/Diagnostic.h"

namespace kiln {

/// Whether the value is part of the residual stream: a layernorm or an addition of two activations reads it.
static bool isResidual(const Value &value) {
  return llvm::any_of(value.getUsers(), [](const Op *user) {
    return user->is(OpKind::layernorm) || (user->is(OpKind::add) && user->operand(1)->type.rank() > 1) ||
           (user->is(OpKind::allReduce) && isResidual(*user->result()));
  });
}

/// Keeps the parts of a sum over ranks in f32, and rounds the sum to `dtype`, where there are few tokens.
static void widenParts(Op &op, DType dtype) {
  Op *part = op.is(OpKind::allReduce) ? op.operand(0)->definingOp() : nullptr;
  if (!part || !part->is(OpKind::matmul) || !hasFewTokens(op, op.result()->type))
    return;
  part->setAttribute("out", Attribute::ident("f32"));
  op.setAttribute("out", Attribute::ident(dtypeName(dtype)));
}

/// Keeps the start of a residual stream in f32 (option residual_f32), and the result of a layernorm of it in `dtype`.
static void widenResidual(Op &op, DType dtype) {
  if ((op.is(OpKind::embed) || op.is(OpKind::lastRow)) && isResidual(*op.result()))
    op.setAttribute("out", Attribute::ident("f32"));
  else if (op.is(OpKind::allReduce))
    op.removeAttribute("out");
  else if (op.is(OpKind::layernorm))
    op.setAttribute("out", Attribute::ident(dtypeName(dtype)));
}

/// The value of residual_f32 that `auto` stands for. `name`: the target. Error: no such target.
static Expected<StringRef> automaticResidual(const Module &module, StringRef name) {
  Expected<const Target *> target = targetNamed(name, module);
  if (!target)
    return target.takeError();
  return (*target)->hasWgmma ? "never" : "one_token";
}

/// Stores weights, but those of rank 1, and caches in `dtype`.
static Error assignToStorage(Module &module, DType dtype) {
  for (const auto &weight : module.weights) {
    if (weight->type.dtype != DType::F32)
      return makeError(weight->loc,
                       "assign-precision: expected weights of f32, got %" + weight->name + " : " + weight->type.str());
    if (weight->type.rank() < 2)
      continue;
    weight->type.dtype = dtype;
    weight->recipe->dtype = dtype;
  }
  for (const auto &state : module.states)
    if (isFloat(state->type.dtype))
      state->type.dtype = dtype;
  return Error::success();
}

static Error assignPrecision(Module &module, const PassOptions &options) {
  bool isTf32 = options.getString("dtype") == "tf32";
  DType dtype = isTf32 ? DType::F32 : *parseDType(options.getString("dtype"));
  if (Error error = assignToStorage(module, dtype))
    return error;
  StringRef residual = options.getString("residual_f32");
  if (residual == "auto") {
    Expected<StringRef> chosen = automaticResidual(module, options.getString("target"));
    if (!chosen)
      return chosen.takeError();
    residual = *chosen;
  }
  bool roundsAttention = isTf32 && options.getBool("attention_tf32");
  for (const auto &function : module.functions) {
    for (const auto &argument : function->arguments)
      if (isFloat(argument->type.dtype))
        argument->type.dtype = dtype;
    walk(function->body, [&](Op &op) {
      if (op.is(OpKind::qk) && dtype != DType::F32)
        op.setAttribute("out", Attribute::ident("f32"));
      bool isAttention = op.is(OpKind::qk) || op.is(OpKind::pv);
      if ((op.is(OpKind::matmul) && isTf32) || (isAttention && roundsAttention))
        op.setAttribute("precision", Attribute::ident("tf32"));
      if (op.is(OpKind::softmax) && dtype != DType::F32 && options.getBool("narrow_softmax"))
        op.setAttribute("out", Attribute::ident(dtypeName(dtype)));
      if (dtype != DType::F32)
        widenParts(op, dtype);
      bool isOneToken = !op.has(Trait::Terminator) && hasFewTokens(op, op.result()->type);
      if (dtype != DType::F32 && (residual == "always" || (residual == "one_token" && isOneToken)))
        widenResidual(op, dtype);
    });
    if (Error error = refreshTypes(function->body))
      return error;
  }
  return Error::success();
}

const PassDef assignPrecisionPass = {
    .name = "assign-precision",
    .summary = "Stores weights, activations and caches in the given type; sums and softmax stay in f32",
    .run = assignPrecision,
    .options =
        {{"dtype", Attribute::ident("f32"), "type of matrices, activations and caches", {"f32", "tf32", "f16", "bf16"}},
         {"residual_f32",
          Attribute::ident("auto"),
          "where the sum that the layers add to stays in f32",
          {"auto", "never", "one_token", "always"}},
         {"target", Attribute::ident("sm_90a"), "the GPU that the plan is for"},
         {"attention_tf32", false, "with dtype tf32, round the factors of QK^T and PV, too"},
         {"narrow_softmax", false, "with a dtype of 16 bits, softmax's results have it, too"}},
};

} // namespace kiln
