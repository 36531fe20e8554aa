// matmul, qk and pv: sums of products.
#include "ops/Checks.h"
#include "ops/MatrixProduct.h"
#include "ops/OpTable.h"
#include "ops/Tensor.h"

namespace kiln {

static const AttributeSpec accumSpec = {
    "accum", Attribute::Kind::Ident, "type of the running sum; f32 when left out", false, {"f32"}};

static const AttributeSpec precisionSpec = {"precision",
                                            Attribute::Kind::Ident,
                                            "of f32 factors in tensor cores: tf32 rounds them to 11 bits",
                                            false,
                                            {"tf32"}};

//===----------------------------------------------------------------------===//
// matmul
//===----------------------------------------------------------------------===//

static Expected<Type> inferMatmul(const Op &op) {
  const Type &x = op.operand(0)->type, &w = op.operand(1)->type;
  if (Error error = expectFloat(op, 0))
    return error;
  if (Error error = expectFloat(op, 1))
    return error;
  if (Error error = expectRank(op, 1, 2))
    return error;
  bool transposed = op.boolAttribute("transpose_b");
  Dim depth = w.shape[transposed ? 1 : 0], cols = w.shape[transposed ? 0 : 1];
  if (!(x.lastDim() == depth))
    return opError(op, "expected operands that agree in the summed extent, got " + x.str() + " and " + w.str() +
                           (transposed ? " (transposed)" : ""));
  Type result(outDType(op, op.operand(0)->type.dtype), x.shape);
  result.shape.back() = cols;
  return result;
}

template <class Real> static Error evaluateMatmul(EvalArgs<Real> &args) {
  const Tensor<Real> &x = args.operands[0], &w = args.operands[1];
  matrixProduct(x.data(), w.data(), args.result.data(), x.rows(), args.result.lastDim(), x.lastDim(),
                args.op.boolAttribute("transpose_b"));
  return Error::success();
}

const OpDef matmulOp = {
    .kind = OpKind::matmul,
    .mnemonic = "matmul",
    .summary = "x · w over the last dim of x: [...,K] · [K,N] -> [...,N].",
    .traits = Trait::Contraction,
    .operands = {{"x", "[...,K]"}, {"w", "[K,N], or [N,K] with transpose_b"}},
    .attributes = {{"transpose_b", Attribute::Kind::Bool, "w is stored [N,K]", false},
                   outSpec("result type; that of x when left out"),
                   precisionSpec,
                   accumSpec},
    .infer = inferMatmul,
    .evaluateF32 = evaluateMatmul<float>,
    .evaluateF64 = evaluateMatmul<double>,
    .flops =
        [](const Op &op, ElementCount elements) {
          return Expr(2) * elements(*op.operand(0)) * op.result()->type.lastDim().expr();
        },
};

//===----------------------------------------------------------------------===//
// qk
//===----------------------------------------------------------------------===//

/// Checks that operands 0 and `other` have the same batch, heads and head size.
static Error expectSameHeads(const Op &op, unsigned other) {
  const Type &a = op.operand(0)->type, &b = op.operand(other)->type;
  if (a.shape[0] == b.shape[0] && a.shape[1] == b.shape[1])
    return Error::success();
  return opError(op, "expected operands that agree in batch and heads, got " + a.str() + " and " + b.str());
}

static Error expectHeadOperands(const Op &op) {
  for (unsigned i : {0, 1}) {
    if (Error error = expectRank(op, i, 4))
      return error;
    if (Error error = expectFloat(op, i))
      return error;
  }
  return expectSameHeads(op, 1);
}

static Expected<Type> inferQk(const Op &op) {
  if (Error error = expectHeadOperands(op))
    return error;
  const Type &q = op.operand(0)->type, &k = op.operand(1)->type;
  if (!(q.lastDim() == k.lastDim()))
    return opError(op, "expected operands that agree in head size, got " + q.str() + " and " + k.str());
  return Type(outDType(op, op.operand(0)->type.dtype), {q.shape[0], q.shape[1], q.shape[2], k.shape[2]});
}

template <class Real> static Error evaluateQk(EvalArgs<Real> &args) {
  const Tensor<Real> &q = args.operands[0], &k = args.operands[1];
  batchedMatrixProduct(q.data(), k.data(), args.result.data(), q.dim(0) * q.dim(1), q.dim(2), k.dim(2), q.dim(3), true);
  return Error::success();
}

const OpDef qkOp = {
    .kind = OpKind::qk,
    .mnemonic = "qk",
    .summary = "Attention scores q · k^T of every head: [B,H,T,D] · [B,H,S,D] -> [B,H,T,S].",
    .traits = Trait::Contraction,
    .operands = {{"q", "[B,H,T,D]"}, {"k", "[B,H,S,D]"}},
    .attributes = {outSpec("result type; that of q when left out"), precisionSpec, accumSpec},
    .infer = inferQk,
    .evaluateF32 = evaluateQk<float>,
    .evaluateF64 = evaluateQk<double>,
    .flops =
        [](const Op &op, ElementCount elements) {
          return Expr(2) * elements(*op.result()) * op.operand(0)->type.lastDim().expr();
        },
};

//===----------------------------------------------------------------------===//
// pv
//===----------------------------------------------------------------------===//

static Expected<Type> inferPv(const Op &op) {
  if (Error error = expectHeadOperands(op))
    return error;
  const Type &p = op.operand(0)->type, &v = op.operand(1)->type;
  if (!(p.lastDim() == v.shape[2]))
    return opError(op, "expected as many probabilities a row as values, got " + p.str() + " and " + v.str());
  return Type(v.dtype, {p.shape[0], p.shape[1], p.shape[2], v.lastDim()});
}

template <class Real> static Error evaluatePv(EvalArgs<Real> &args) {
  const Tensor<Real> &p = args.operands[0], &v = args.operands[1];
  batchedMatrixProduct(p.data(), v.data(), args.result.data(), p.dim(0) * p.dim(1), p.dim(2), v.dim(3), p.dim(3),
                       false);
  return Error::success();
}

const OpDef pvOp = {
    .kind = OpKind::pv,
    .mnemonic = "pv",
    .summary = "Attention output p · v of every head: [B,H,T,S] · [B,H,S,D] -> [B,H,T,D].",
    .traits = Trait::Contraction,
    .operands = {{"p", "[B,H,T,S] probabilities"}, {"v", "[B,H,S,D]"}},
    .attributes = {precisionSpec, accumSpec},
    .infer = inferPv,
    .evaluateF32 = evaluatePv<float>,
    .evaluateF64 = evaluatePv<double>,
    .flops =
        [](const Op &op, ElementCount elements) {
          return Expr(2) * elements(*op.operand(0)) * op.result()->type.lastDim().expr();
        },
};

} // namespace kiln
