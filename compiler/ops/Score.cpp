// log_probability and argmax: what a row of logits says about a token.
#include "ops/Checks.h"
#include "ops/OpTable.h"
#include "ops/Tensor.h"

#include <cmath>

namespace kiln {

/// The shape of one value for each row of logits. Error: logits of another type, or of no rows.
static Expected<SmallVector<Dim, 4>> rowsOfLogits(const Op &op) {
  if (op.operand(0)->type.rank() < 2)
    return opError(op, "expected operand 'logits' of rank 2 or more, got " + op.operand(0)->type.str());
  if (Error error = expectFloat(op, 0))
    return error;
  return SmallVector<Dim, 4>(ArrayRef<Dim>(op.operand(0)->type.shape).drop_back());
}

static StringRef scoreLabel(const Op &) { return "score"; }

//===----------------------------------------------------------------------===//
// log_probability
//===----------------------------------------------------------------------===//

static Expected<Type> inferLogProbability(const Op &op) {
  auto rows = rowsOfLogits(op);
  if (!rows)
    return rows.takeError();
  if (Error error = expectType(op, 1, Type(DType::I32, *rows)))
    return error;
  return Type(DType::F32, *rows);
}

template <class Real> static Error evaluateLogProbability(EvalArgs<Real> &args) {
  const Tensor<Real> &logits = args.operands[0], &ids = args.operands[1];
  parallelRows(logits.rows(), 8 * logits.lastDim(), [&](int64_t i) {
    ArrayRef<Real> row = logits.row(i);
    Real id = ids.data()[i], &out = args.result.data()[i];
    if (id < 0 || id >= static_cast<Real>(row.size())) {
      out = 0;
      return;
    }
    double largest = *std::max_element(row.begin(), row.end()), sum = 0;
    for (Real logit : row)
      sum += std::exp(static_cast<double>(logit) - largest);
    out = static_cast<Real>(static_cast<double>(row[static_cast<size_t>(id)]) - largest - std::log(sum));
  });
  return Error::success();
}

const OpDef logProbabilityOp = {
    .kind = OpKind::logProbability,
    .mnemonic = "log_probability",
    .summary = "The natural logarithm of softmax(logits)[id] of each row: [...,V] -> f32[...]; 0 for an id outside "
               "0..V-1.",
    .operands = {{"logits", "[...,V]"}, {"ids", "i32[...], one of each row; -1 for none"}},
    .infer = inferLogProbability,
    .evaluateF32 = evaluateLogProbability<float>,
    .evaluateF64 = evaluateLogProbability<double>,
    .flops = [](const Op &op, ElementCount elements) { return Expr(3) * elements(*op.operand(0)); },
    .label = scoreLabel,
};

//===----------------------------------------------------------------------===//
// argmax
//===----------------------------------------------------------------------===//

static Expected<Type> inferArgmax(const Op &op) {
  auto rows = rowsOfLogits(op);
  if (!rows)
    return rows.takeError();
  return Type(DType::I32, *rows);
}

template <class Real> static Error evaluateArgmax(EvalArgs<Real> &args) {
  const Tensor<Real> &logits = args.operands[0];
  parallelRows(logits.rows(), logits.lastDim(), [&](int64_t i) {
    ArrayRef<Real> row = logits.row(i);
    size_t best = 0;
    Real largest = -std::numeric_limits<Real>::infinity(); // NaN is not larger than any number
    for (const auto &[c, logit] : llvm::enumerate(row))
      if (logit > largest) {
        largest = logit;
        best = c;
      }
    args.result.data()[i] = static_cast<Real>(best);
  });
  return Error::success();
}

const OpDef argmaxOp = {
    .kind = OpKind::argmax,
    .mnemonic = "argmax",
    .summary = "The id of the largest logit of each row, the lowest of equals: [...,V] -> i32[...].",
    .operands = {{"logits", "[...,V]"}},
    .infer = inferArgmax,
    .evaluateF32 = evaluateArgmax<float>,
    .evaluateF64 = evaluateArgmax<double>,
    .flops = [](const Op &op, ElementCount elements) { return elements(*op.operand(0)); },
    .label = scoreLabel,
};

} // namespace kiln
