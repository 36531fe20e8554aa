// layernorm, its parts as separate ops, and softmax: ops that need a whole row of the operand.
#include "ops/Checks.h"
#include "ops/OpTable.h"
#include "ops/Tensor.h"

#include <cmath>

namespace kiln {

//===----------------------------------------------------------------------===//
// layernorm
//===----------------------------------------------------------------------===//

/// Checks the weight and bias of a normalisation, from operand `first` on, if there are any.
static Error expectParameters(const Op &op, unsigned first) {
  for (unsigned i = first; i < op.operands().size(); ++i)
    if (Error error = expectFloatShape(op, i, {op.operand(0)->type.lastDim()}))
      return error;
  return Error::success();
}

/// Multiplies row `out` by the weight, operand `first`, and adds the bias, the next one, if there are any.
template <class Real> static void applyParameters(const EvalArgs<Real> &args, unsigned first,
                                                  MutableArrayRef<Real> out) {
  if (args.op.operands().size() == first)
    return;
  const Real *weight = args.operands[first].data();
  const Real *bias = args.op.operands().size() > first + 1 ? args.operands[first + 1].data() : nullptr;
  for (size_t c = 0; c < out.size(); ++c)
    out[c] = out[c] * weight[c] + (bias ? bias[c] : 0);
}

static Expected<Type> inferLayernorm(const Op &op) {
  const Type &x = op.operand(0)->type;
  if (Error error = expectFloat(op, 0))
    return error;
  if (Error error = expectParameters(op, 1))
    return error;
  if (op.floatAttribute("eps") <= 0)
    return opError(op, "attribute 'eps': expected more than 0, got " + op.attribute("eps")->str());
  return Type(outDType(op, x.dtype), x.shape);
}

template <class Real> static Error evaluateLayernorm(EvalArgs<Real> &args) {
  const Tensor<Real> &x = args.operands[0];
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
      out[c] = static_cast<Real>((in[c] - mean) * rstd);
    applyParameters(args, 1, out);
  });
  return Error::success();
}

const OpDef layernormOp = {
    .kind = OpKind::layernorm,
    .mnemonic = "layernorm",
    .summary = "(x - mean) / sqrt(variance + eps) * weight + bias over the last dim; biased variance (Ba et al. 2016).",
    .traits = Trait::RowWise,
    .operands = {{"x", "[...,C]"}, {"weight", "[C]; 1 when left out", true}, {"bias", "[C]; 0 when left out", true}},
    .attributes = {{"eps", Attribute::Kind::Float, "added to the variance"},
                   outSpec("result type; that of x when left out")},
    .infer = inferLayernorm,
    .evaluateF32 = evaluateLayernorm<float>,
    .evaluateF64 = evaluateLayernorm<double>,
    .flops = [](const Op &op, ElementCount elements) { return Expr(8) * elements(*op.result()); },
};

//===----------------------------------------------------------------------===//
// row_mean, row_rstd, normalize
//===----------------------------------------------------------------------===//

static Expected<Type> inferRowMean(const Op &op) {
  if (Error error = expectRows(op))
    return error;
  return statisticType(op.operand(0)->type);
}

template <class Real> static Error evaluateRowMean(EvalArgs<Real> &args) {
  const Tensor<Real> &x = args.operands[0];
  parallelRows(x.rows(), x.lastDim(), [&](int64_t i) {
    double sum = 0;
    for (Real value : x.row(i))
      sum += value;
    args.result.data()[i] = static_cast<Real>(sum / x.lastDim());
  });
  return Error::success();
}

const OpDef rowMeanOp = {
    .kind = OpKind::rowMean,
    .mnemonic = "row_mean",
    .summary = "The mean of each row: [...,C] -> f32[...].",
    .operands = {{"x", "[...,C]"}},
    .infer = inferRowMean,
    .evaluateF32 = evaluateRowMean<float>,
    .evaluateF64 = evaluateRowMean<double>,
    .flops = [](const Op &op, ElementCount elements) { return elements(*op.operand(0)); },
};

static Expected<Type> inferRowRstd(const Op &op) {
  if (Error error = expectRows(op))
    return error;
  if (Error error = expectType(op, 1, statisticType(op.operand(0)->type)))
    return error;
  if (op.floatAttribute("eps") <= 0)
    return opError(op, "attribute 'eps': expected more than 0, got " + op.attribute("eps")->str());
  return statisticType(op.operand(0)->type);
}

template <class Real> static Error evaluateRowRstd(EvalArgs<Real> &args) {
  const Tensor<Real> &x = args.operands[0], &mean = args.operands[1];
  double eps = args.op.floatAttribute("eps");
  parallelRows(x.rows(), 2 * x.lastDim(), [&](int64_t i) {
    double squares = 0, center = mean.data()[i];
    for (Real value : x.row(i))
      squares += (value - center) * (value - center);
    args.result.data()[i] = static_cast<Real>(1 / std::sqrt(squares / x.lastDim() + eps));
  });
  return Error::success();
}

const OpDef rowRstdOp = {
    .kind = OpKind::rowRstd,
    .mnemonic = "row_rstd",
    .summary = "1 / sqrt(variance + eps) of each row; biased variance around the mean: [...,C] -> f32[...].",
    .operands = {{"x", "[...,C]"}, {.name = "mean", .doc = "f32[...], of the rows", .isOfRow = true}},
    .attributes = {{"eps", Attribute::Kind::Float, "added to the variance"}},
    .infer = inferRowRstd,
    .evaluateF32 = evaluateRowRstd<float>,
    .evaluateF64 = evaluateRowRstd<double>,
    .flops = [](const Op &op, ElementCount elements) { return Expr(3) * elements(*op.operand(0)); },
};

static Expected<Type> inferNormalize(const Op &op) {
  const Type &x = op.operand(0)->type;
  if (Error error = expectRows(op))
    return error;
  for (unsigned i : {1, 2})
    if (Error error = expectType(op, i, statisticType(x)))
      return error;
  if (Error error = expectParameters(op, 3))
    return error;
  return Type(outDType(op, x.dtype), x.shape);
}

template <class Real> static Error evaluateNormalize(EvalArgs<Real> &args) {
  const Tensor<Real> &x = args.operands[0];
  parallelRows(x.rows(), 4 * x.lastDim(), [&](int64_t i) {
    Real mean = args.operands[1].data()[i], rstd = args.operands[2].data()[i];
    MutableArrayRef<Real> in = x.row(i), out = args.result.row(i);
    for (int64_t c = 0; c < x.lastDim(); ++c)
      out[c] = (in[c] - mean) * rstd;
    applyParameters(args, 3, out);
  });
  return Error::success();
}

const OpDef normalizeOp = {
    .kind = OpKind::normalize,
    .mnemonic = "normalize",
    .summary = "(x - mean) * rstd * weight + bias, mean and rstd those of the row.",
    .operands = {{"x", "[...,C]"},
                 {.name = "mean", .doc = "f32[...], of the rows", .isOfRow = true},
                 {.name = "rstd", .doc = "f32[...], of the rows", .isOfRow = true},
                 {"weight", "[C]; 1 when left out", true},
                 {"bias", "[C]; 0 when left out", true}},
    .attributes = {outSpec("result type; that of x when left out")},
    .infer = inferNormalize,
    .evaluateF32 = evaluateNormalize<float>,
    .evaluateF64 = evaluateNormalize<double>,
    .flops = [](const Op &op, ElementCount elements) { return Expr(4) * elements(*op.result()); },
};

//===----------------------------------------------------------------------===//
// normalize_product
//===----------------------------------------------------------------------===//

static Expected<Type> inferNormalizeProduct(const Op &op) {
  const Type &product = op.operand(0)->type;
  if (Error error = expectRows(op))
    return error;
  for (unsigned i : {1, 2})
    if (Error error = expectType(op, i, statisticType(product)))
      return error;
  if (Error error = expectFloatShape(op, 3, {product.lastDim()}))
    return error;
  return product;
}

template <class Real> static Error evaluateNormalizeProduct(EvalArgs<Real> &args) {
  const Tensor<Real> &product = args.operands[0], &sums = args.operands[3];
  parallelRows(product.rows(), 3 * product.lastDim(), [&](int64_t i) {
    Real mean = args.operands[1].data()[i], rstd = args.operands[2].data()[i];
    MutableArrayRef<Real> in = product.row(i), out = args.result.row(i);
    for (int64_t c = 0; c < product.lastDim(); ++c)
      out[c] = (in[c] - mean * sums.data()[c]) * rstd;
  });
  return Error::success();
}

const OpDef normalizeProductOp = {
    .kind = OpKind::normalizeProduct,
    .mnemonic = "normalize_product",
    .summary = "(product - mean * sums) * rstd: the product with a matrix of rows that are normalised only afterwards. "
               "Mean and rstd are those of the rows before the product, sums those of the matrix's columns.",
    .operands = {{"product", "[...,N]"},
                 {.name = "mean", .doc = "f32[...], of the rows", .isOfRow = true},
                 {.name = "rstd", .doc = "f32[...], of the rows", .isOfRow = true},
                 {"sums", "[N]"}},
    .infer = inferNormalizeProduct,
    .evaluateF32 = evaluateNormalizeProduct<float>,
    .evaluateF64 = evaluateNormalizeProduct<double>,
    .flops = [](const Op &op, ElementCount elements) { return Expr(3) * elements(*op.result()); },
    .deviceExpression =
        [](const Op &, ArrayRef<std::string> x) { return "(" + x[0] + " - " + x[1] + " * " + x[3] + ") * " + x[2]; },
    .label = [](const Op &) -> StringRef { return "norm"; },
};

//===----------------------------------------------------------------------===//
// softmax
//===----------------------------------------------------------------------===//

static Expected<Type> inferSoftmax(const Op &op) {
  if (Error error = expectFloat(op, 0))
    return error;
  const Type &x = op.operand(0)->type;
  return Type(outDType(op, x.dtype), x.shape);
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
      // A masked score is -inf; skipping it keeps a long cache with few rows cheap. A score of +inf is not skipped: it
      // makes the row NaN.
      out[s] = in[s] == -std::numeric_limits<Real>::infinity() ? Real(0) : std::exp(in[s] - largest);
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
    .attributes = {outSpec("result type; that of x when left out")},
    .infer = inferSoftmax,
    .evaluateF32 = evaluateSoftmax<float>,
    .evaluateF64 = evaluateSoftmax<double>,
    .flops = [](const Op &op, ElementCount elements) { return Expr(5) * elements(*op.result()); },
};

} // namespace kiln
