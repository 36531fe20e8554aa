#include "ops/Checks.h"
#include "ops/OpTable.h"
#include "ops/Tensor.h"

namespace kiln {

static Expected<Type> inferEmbed(const Op &op) {
  const Type &tokens = op.operand(0)->type, &wte = op.operand(1)->type, &wpe = op.operand(2)->type;
  for (unsigned i : {0, 1, 2})
    if (Error error = expectRank(op, i, 2))
      return error;
  if (Error error = expectType(op, 0, Type(DType::I32, tokens.shape)))
    return error;
  if (Error error = expectFloat(op, 1))
    return error;
  if (Error error = expectFloatShape(op, 2, {wpe.shape[0], wte.shape[1]}))
    return error;
  if (Value *positions = op.operandOrNull(3); positions)
    if (Error error = expectType(op, 3, Type(DType::I32, {tokens.shape[0]})))
      return error;
  if (tokens.shape[1].upperBound() > wpe.shape[0].upperBound())
    return opError(op, "expected at most as many tokens as positions (" + wpe.shape[0].str() + "), got " +
                           tokens.shape[1].str() + " up to " + Twine(tokens.shape[1].upperBound()));
  return Type(outDType(op, wte.dtype), {tokens.shape[0], tokens.shape[1], wte.shape[1]});
}

template <class Real> static Error evaluateEmbed(EvalArgs<Real> &args) {
  const Tensor<Real> &tokens = args.operands[0], &wte = args.operands[1], &wpe = args.operands[2];
  const Tensor<Real> *positions = args.operandOrNull(3);
  int64_t vocab = wte.dim(0);
  for (int64_t row = 0; row < args.result.rows(); ++row) {
    int64_t b = row / tokens.dim(1), t = row % tokens.dim(1);
    int64_t token = static_cast<int64_t>(tokens.data()[row]);
    int64_t position = t + (positions ? static_cast<int64_t>(positions->data()[b]) : 0);
    if (token < 0 || token >= vocab)
      return opError(args.op, "token id out of range: expected 0 to " + Twine(vocab - 1) + ", got " + Twine(token));
    if (position < 0 || position >= wpe.dim(0))
      return opError(args.op,
                     "position out of range: expected 0 to " + Twine(wpe.dim(0) - 1) + ", got " + Twine(position));
    for (auto [out, a, b] : llvm::zip(args.result.row(row), wte.row(token), wpe.row(position)))
      out = a + b;
  }
  return Error::success();
}

const OpDef embedOp = {
    .kind = OpKind::embed,
    .mnemonic = "embed",
    .summary = "Token plus position embedding: result[b,t] = wte[tokens[b,t]] + wpe[positions[b] + t].",
    .operands = {{"tokens", "i32[B,T] token ids"},
                 {"wte", "[V,C] token embedding"},
                 {"wpe", "[P,C] position embedding"},
                 {"positions", "i32[B] position of each row's first token; 0 when left out", true}},
    .attributes = {outSpec("result type; that of wte when left out")},
    .infer = inferEmbed,
    .evaluateF32 = evaluateEmbed<float>,
    .evaluateF64 = evaluateEmbed<double>,
    .flops = [](const Op &op, ElementCount elements) { return elements(*op.result()); },
};

} // namespace kiln
