// group_mean, group_squares, merged_rstd: statistics of rows by groups of columns, which the kernel that makes the rows
// hands out and the one that needs them merges.
#include "ops/Checks.h"
#include "ops/OpTable.h"
#include "ops/Tensor.h"

#include <cmath>

namespace kiln {

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

} // namespace kiln
