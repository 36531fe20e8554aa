// layernorm and softmax: each row of the result needs the whole row of the operand.
#include "ops/Checks.h"
#include "ops/OpTable.h"
#include "ops/Tensor.h"

#include <cmath>

namespace kiln {

//===----------------------------------------------------------------------===//
// layernorm
//===----------------------------------------------------------------------===//

static Expected<Type> inferLayernorm(const Op &op) {
  const Type &x = op.operand(0)->type;
  if (Error error = expectFloat(op, 0))
    return error;
  for (unsigned i : {1, 2})
    if (Error error = expectFloatShape(op, i, {x.lastDim()}))
      return error;
  if (op.floatAttribute("eps") <= 0)
    return opError(op, "attribute 'eps': expected more than 0, got " + op.attribute("eps")->str());
  return Type(outDType(op, x.dtype), x.shape);
}

template <class Real> static Error evaluateLayernorm(EvalArgs<Real> &args) {
  const Tensor<Real> &x = args.operands[0], &weight = args.operands[1], &bias = args.operands[2];
  double eps = args.op.floatAttribute("eps");
  int64_t width = x.lastDim();
  parallelRows(x.rows(), 4 * width, [&](int64_t i) {
    double sum = 0, squares = 0;
    for (Real value : x.row(i))
      sum += value;
    double mean = sum / width;
    for (Real value : x.row(i))
      squares += (value - mean) * (value - mean);
    double rstd = 1 / std::sqrt(squares / width + eps);
    MutableArrayRef<Real> in = x.row(i), out = args.result.row(i);
    for (int64_t c = 0; c < width; ++c)
      out[c] = static_cast<Real>((in[c] - mean) * rstd) * weight.data()[c] + bias.data()[c];
  });
  return Error::success();
}

const OpDef layernormOp = {
    .kind = OpKind::layernorm,
    .mnemonic = "layernorm",
    .summary = "(x - mean) / sqrt(variance + eps) * weight + bias over the last dim; biased variance (Ba et al. 2016).",
    .traits = Trait::RowWise,
    .operands = {{"x", "[...,C]"}, {"weight", "[C]"}, {"bias", "[C]"}},
    .attributes = {{"eps", Attribute::Kind::Float, "added to the variance"},
                   outSpec("result type; that of x when left out")},
    .infer = inferLayernorm,
    .evaluateF32 = evaluateLayernorm<float>,
    .evaluateF64 = evaluateLayernorm<double>,
    .flops = [](const Op &op) { return Expr(8) * op.result()->type.elements(); },
};

//===----------------------------------------------------------------------===//
// softmax
//===----------------------------------------------------------------------===//

static Expected<Type> inferSoftmax(const Op &op) {
  if (Error error = expectFloat(op, 0))
    return error;
  return op.operand(0)->type;
}

template <class Real> static Error evaluateSoftmax(EvalArgs<Real> &args) {
  const Tensor<Real> &x = args.operands[0];
  parallelRows(x.rows(), 8 * x.lastDim(), [&](int64_t i) {
    const Real *in = x.row(i).data();
    Real *out = args.result.row(i).data();
    int64_t width = x.lastDim();
    Real largest = *std::max_element(in, in + width);
    double sum = 0;
    for (int64_t s = 0; s < width; ++s) {
      // Masked scores are -inf; skipping them keeps a long cache with few rows in it cheap.
      out[s] = std::isinf(in[s]) ? Real(0) : std::exp(in[s] - largest);
      sum += out[s];
    }
    Real inverse = static_cast<Real>(1 / sum);
    for (int64_t s = 0; s < width; ++s)
      out[s] *= inverse;
  });
  return Error::success();
}

const OpDef softmaxOp = {
    .kind = OpKind::softmax,
    .mnemonic = "softmax",
    .summary = "exp(x - max) / sum over the last dim.",
    .traits = Trait::RowWise,
    .operands = {{"x", "[...,S]; -inf where masked, at least one finite score a row"}},
    .infer = inferSoftmax,
    .evaluateF32 = evaluateSoftmax<float>,
    .evaluateF64 = evaluateSoftmax<double>,
    .flops = [](const Op &op) { return Expr(5) * op.result()->type.elements(); },
};

} // namespace kiln
