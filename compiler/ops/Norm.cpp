// layernorm, its parts as separate ops, and softmax: ops that need a whole row of the operand.
#include "ops/Checks.h"
#include "ops/OpTable.h"
#include "ops/Tensor.h"

#include <cmath>

namespace kiln {

//===----------------------------------------------------------------------===//
// layernorm
//===----------------------------------------------------------------------===//

/// Checks the weight and bias of a normalisation, from operand `first` on: there are both or none.
static Error expectParameters(const Op &op, unsigned first) {
  size_t count = op.operands().size();
  if (count == first + 1)
    return opError(op, "expected " + Twine(first) + " or " + Twine(first + 2) + " operands, got " + Twine(count));
  for (unsigned i = first; i < count; ++i)
    if (Error error = expectFloatShape(op, i, {op.operand(0)->type.lastDim()}))
      return error;
  return Error::success();
}

/// Multiplies row `out` by the weight and adds the bias, operands `first` and `first` + 1 if there are any.
template <class Real> static void applyParameters(const EvalArgs<Real> &args, unsigned first,
                                                  MutableArrayRef<Real> out) {
  if (args.op.operands().size() == first)
    return;
  const Real *weight = args.operands[first].data(), *bias = args.operands[first + 1].data();
  for (size_t c = 0; c < out.size(); ++c)
    out[c] = out[c] * weight[c] + bias[c];
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
    .operands = {{"x", "[...,C]"},
                 {"weight", "[C]; 1 when left out", true},
                 {"bias", "[C]; left out together with the weight: 0", true}},
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

/// The type of a statistic: one f32 per row of the operand.
static Type statisticType(const Type &x) { return Type(DType::F32, ArrayRef<Dim>(x.shape).drop_back()); }

static Error expectRows(const Op &op) {
  if (op.operand(0)->type.rank() < 2)
    return opError(op, "expected operand '" + op.def().operands[0].name + "' of rank 2 or more, got " +
                           op.operand(0)->type.str());
  return expectFloat(op, 0);
}

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
                 {"bias", "[C]; left out together with the weight: 0", true}},
    .attributes = {outSpec("result type; that of x when left out")},
    .infer = inferNormalize,
    .evaluateF32 = evaluateNormalize<float>,
    .evaluateF64 = evaluateNormalize<double>,
    .flops = [](const Op &op, ElementCount elements) { return Expr(4) * elements(*op.result()); },
};

//===----------------------------------------------------------------------===//
// group_mean, group_squares, merged_rstd
//===----------------------------------------------------------------------===//

static Expected<Type> inferGroupMean(const Op &op) {
  if (Error error = expectRows(op))
    return error;
  const Type &x = op.operand(0)->type;
  int64_t size = op.intAttribute("size");
  std::optional<int64_t> cols = x.lastDim().asConstant();
  if (!cols || *cols % size != 0)
    return opError(op, "expected operand 'x' with rows of a multiple of " + Twine(size) + " columns, got " + x.str());
  Type groups = x;
  groups.dtype = DType::F32;
  groups.shape.back() = *cols / size;
  return groups;
}

template <class Real> static Error evaluateGroupMean(EvalArgs<Real> &args) {
  const Tensor<Real> &x = args.operands[0];
  int64_t size = args.op.intAttribute("size");
  for (int64_t i = 0; i < args.result.size(); ++i) {
    double sum = 0;
    for (int64_t c = 0; c < size; ++c)
      sum += x.data()[i * size + c];
    args.result.data()[i] = static_cast<Real>(sum / size);
  }
  return Error::success();
}

static StringRef groupLabel(const Op &) { return "groups"; }

const OpDef groupMeanOp = {
    .kind = OpKind::groupMean,
    .mnemonic = "group_mean",
    .summary = "The means of groups of neighbouring columns of each row: [...,C] -> f32[...,C/size].",
    .operands = {{"x", "[...,C]"}},
    .attributes =
        {{.name = "size", .kind = Attribute::Kind::Int, .doc = "columns of a group, a divisor of C", .least = 1}},
    .infer = inferGroupMean,
    .evaluateF32 = evaluateGroupMean<float>,
    .evaluateF64 = evaluateGroupMean<double>,
    .flops = [](const Op &op, ElementCount elements) { return elements(*op.operand(0)); },
    .label = groupLabel,
};

static Expected<Type> inferGroupSquares(const Op &op) {
  if (Error error = expectRows(op))
    return error;
  const Type &x = op.operand(0)->type, &means = op.operand(1)->type;
  std::optional<int64_t> cols = x.lastDim().asConstant(), groups = means.lastDim().asConstant();
  bool fits =
      means.dtype == DType::F32 && statisticType(x) == statisticType(means) && cols && groups && *cols % *groups == 0;
  if (!fits)
    return opError(op, "expected operand 'means' to have the means of groups of " + x.str() + ", got " + means.str());
  return means;
}

template <class Real> static Error evaluateGroupSquares(EvalArgs<Real> &args) {
  const Tensor<Real> &x = args.operands[0], &means = args.operands[1];
  int64_t size = x.size() / means.size();
  for (int64_t i = 0; i < means.size(); ++i) {
    double squares = 0, center = means.data()[i];
    for (int64_t c = 0; c < size; ++c)
      squares += (x.data()[i * size + c] - center) * (x.data()[i * size + c] - center);
    args.result.data()[i] = static_cast<Real>(squares);
  }
  return Error::success();
}

const OpDef groupSquaresOp = {
    .kind = OpKind::groupSquares,
    .mnemonic = "group_squares",
    .summary = "The sums of the squared deviations of groups of columns from their means: [...,C] -> f32[...,G].",
    .operands = {{"x", "[...,C]"}, {"means", "f32[...,G], of the groups"}},
    .infer = inferGroupSquares,
    .evaluateF32 = evaluateGroupSquares<float>,
    .evaluateF64 = evaluateGroupSquares<double>,
    .flops = [](const Op &op, ElementCount elements) { return Expr(3) * elements(*op.operand(0)); },
    .label = groupLabel,
};

static Expected<Type> inferMergedRstd(const Op &op) {
  const Type &squares = op.operand(0)->type;
  if (Error error = expectRows(op))
    return error;
  if (Error error = expectType(op, 0, Type(DType::F32, squares.shape)))
    return error;
  if (Error error = expectType(op, 1, squares))
    return error;
  if (Error error = expectType(op, 2, statisticType(squares)))
    return error;
  if (op.floatAttribute("eps") <= 0)
    return opError(op, "attribute 'eps': expected more than 0, got " + op.attribute("eps")->str());
  return statisticType(squares);
}

template <class Real> static Error evaluateMergedRstd(EvalArgs<Real> &args) {
  const Tensor<Real> &squares = args.operands[0], &means = args.operands[1], &mean = args.operands[2];
  auto size = static_cast<double>(args.op.intAttribute("size"));
  for (int64_t i = 0; i < mean.size(); ++i) {
    double sum = 0, center = mean.data()[i];
    for (auto [square, group] : llvm::zip(squares.row(i), means.row(i)))
      sum += square + size * (group - center) * (group - center);
    double variance = sum / (size * static_cast<double>(squares.lastDim()));
    args.result.data()[i] = static_cast<Real>(1 / std::sqrt(variance + args.op.floatAttribute("eps")));
  }
  return Error::success();
}

const OpDef mergedRstdOp = {
    .kind = OpKind::mergedRstd,
    .mnemonic = "merged_rstd",
    .summary = "row_rstd from the statistics of groups of columns (Chan, Golub, LeVeque 1979): f32[...,G] -> f32[...].",
    .operands = {{"squares", "f32[...,G], of the groups"},
                 {"means", "f32[...,G], of the groups"},
                 {.name = "mean", .doc = "f32[...], of the rows", .isOfRow = true}},
    .attributes = {{"eps", Attribute::Kind::Float, "added to the variance"},
                   {.name = "size", .kind = Attribute::Kind::Int, .doc = "columns of a group", .least = 1}},
    .infer = inferMergedRstd,
    .evaluateF32 = evaluateMergedRstd<float>,
    .evaluateF64 = evaluateMergedRstd<double>,
    .flops = [](const Op &op, ElementCount elements) { return Expr(4) * elements(*op.operand(0)); },
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
