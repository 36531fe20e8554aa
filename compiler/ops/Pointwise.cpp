// add, scale, gelu, relu, cast and causal_mask: result element i depends on element i of operand 0.
#include "ops/Checks.h"
#include "ops/OpTable.h"
#include "ops/Tensor.h"

#include <cmath>
#include <numbers>

namespace kiln {

static Expr oneFlopAnElement(const Op &op, ElementCount elements) { return elements(*op.result()); }

static Expected<Type> inferLikeOperand(const Op &op) {
  if (Error error = expectFloat(op, 0))
    return error;
  return op.operand(0)->type;
}

template <class Real, class Compute> static void mapElements(EvalArgs<Real> &args, Compute compute) {
  const Tensor<Real> &x = args.operands[0];
  parallelRows(x.rows(), 8 * x.lastDim(), [&](int64_t i) {
    const Real *from = x.row(i).data();
    Real *to = args.result.row(i).data();
    for (int64_t c = 0, width = x.lastDim(); c < width; ++c)
      to[c] = compute(from[c]);
  });
}

//===----------------------------------------------------------------------===//
// add
//===----------------------------------------------------------------------===//

/// Whether operand 1 is a row that is added to every row of operand 0.
static bool addsRow(const Op &op) { return op.operand(1)->type.rank() == 1 && op.operand(0)->type.rank() > 1; }

static Expected<Type> inferAdd(const Op &op) {
  const Type &a = op.operand(0)->type;
  if (Error error = expectFloat(op, 0))
    return error;
  SmallVector<Dim, 4> shape = a.shape;
  if (addsRow(op))
    shape.assign({a.lastDim()});
  if (Error error = expectFloatShape(op, 1, shape))
    return error;
  // If operand 1 is kept in f32, so is the sum.
  bool isWide = !addsRow(op) && op.operand(1)->type.dtype == DType::F32;
  return Type(isWide ? DType::F32 : a.dtype, a.shape);
}

template <class Real> static Error evaluateAdd(EvalArgs<Real> &args) {
  const Tensor<Real> &a = args.operands[0], &b = args.operands[1];
  bool isRow = addsRow(args.op);
  parallelRows(a.rows(), a.lastDim(), [&](int64_t i) {
    const Real *x = a.row(i).data(), *y = b.row(isRow ? 0 : i).data();
    Real *to = args.result.row(i).data();
    for (int64_t c = 0, width = a.lastDim(); c < width; ++c)
      to[c] = x[c] + y[c];
  });
  return Error::success();
}

const OpDef addOp = {
    .kind = OpKind::add,
    .mnemonic = "add",
    .summary = "a + b; a b of rank 1 is added to every row of a. Of a's type, or f32 if another b is f32.",
    .traits = Trait::Pointwise | Trait::Commutative,
    .operands = {{"a", "[...,C]"}, {"b", "[...,C] or [C]"}},
    .infer = inferAdd,
    .evaluateF32 = evaluateAdd<float>,
    .evaluateF64 = evaluateAdd<double>,
    .flops = oneFlopAnElement,
    .deviceExpression = [](const Op &, ArrayRef<std::string> x) { return x[0] + " + " + x[1]; },
    .label = [](const Op &op) -> StringRef { return addsRow(op) ? "bias" : "residual"; },
};

//===----------------------------------------------------------------------===//
// scale
//===----------------------------------------------------------------------===//

template <class Real> static Error evaluateScale(EvalArgs<Real> &args) {
  Real factor = static_cast<Real>(args.op.floatAttribute("factor"));
  mapElements<Real>(args, [=](Real x) { return x * factor; });
  return Error::success();
}

const OpDef scaleOp = {
    .kind = OpKind::scale,
    .mnemonic = "scale",
    .summary = "x * factor.",
    .traits = Trait::Pointwise,
    .operands = {{"x", "any shape"}},
    .attributes = {{"factor", Attribute::Kind::Float, "what to multiply by"}},
    .infer = inferLikeOperand,
    .evaluateF32 = evaluateScale<float>,
    .evaluateF64 = evaluateScale<double>,
    .flops = oneFlopAnElement,
    .deviceExpression = [](const Op &op,
                           ArrayRef<std::string> x) { return x[0] + " * " + op.attribute("factor")->str() + "f"; },
};

//===----------------------------------------------------------------------===//
// gelu, relu
//===----------------------------------------------------------------------===//

template <class Real> static Real geluTanh(Real x) {
  // x / 2 (1 + tanh(u)) = x / (1 + exp(-2u)), which costs one exponential and does not cancel where u is negative.
  const Real c = 2 * std::sqrt(Real(2) / std::numbers::pi_v<Real>);
  return x / (1 + std::exp(-c * (x + Real(0.044715) * x * x * x)));
}

template <class Real> static Real geluErf(Real x) {
  return Real(0.5) * x * (1 + std::erf(x / std::numbers::sqrt2_v<Real>));
}

template <class Real> static Error evaluateGelu(EvalArgs<Real> &args) {
  if (args.op.identAttribute("approx") == "tanh")
    mapElements<Real>(args, [](Real x) { return geluTanh(x); });
  else
    mapElements<Real>(args, [](Real x) { return geluErf(x); });
  return Error::success();
}

const OpDef geluOp = {
    .kind = OpKind::gelu,
    .mnemonic = "gelu",
    .summary = "Gaussian error linear unit (Hendrycks and Gimpel 2016), exact with erf or by their tanh formula.",
    .traits = Trait::Pointwise,
    .operands = {{"x", "any shape"}},
    .attributes = {{"approx", Attribute::Kind::Ident, "the formula", true, {"tanh", "erf"}}},
    .infer = inferLikeOperand,
    .evaluateF32 = evaluateGelu<float>,
    .evaluateF64 = evaluateGelu<double>,
    .flops = [](const Op &op, ElementCount elements) { return Expr(10) * elements(*op.result()); },
    // transformers has three names for the tanh formula.
    .activationNames = {{"gelu_new", {{"approx", Attribute::ident("tanh")}}},
                        {"gelu_pytorch_tanh", {{"approx", Attribute::ident("tanh")}}},
                        {"gelu_fast", {{"approx", Attribute::ident("tanh")}}},
                        {"gelu", {{"approx", Attribute::ident("erf")}}}},
    .deviceExpression =
        [](const Op &op, ArrayRef<std::string> x) {
          // Rounding to bf16 moves results more than a less exact function does.
          const StringRef approx = op.identAttribute("approx");
          const bool isRounded = approx == "tanh" && op.result()->type.dtype == DType::BF16;
          return ("gelu_" + approx + (isRounded ? "_bf16(" : "(") + x[0] + ")").str();
        },
};

template <class Real> static Error evaluateRelu(EvalArgs<Real> &args) {
  mapElements<Real>(args, [](Real x) { return std::max(x, Real(0)); });
  return Error::success();
}

const OpDef reluOp = {
    .kind = OpKind::relu,
    .mnemonic = "relu",
    .summary = "max(x, 0).",
    .traits = Trait::Pointwise,
    .operands = {{"x", "any shape"}},
    .infer = inferLikeOperand,
    .evaluateF32 = evaluateRelu<float>,
    .evaluateF64 = evaluateRelu<double>,
    .flops = oneFlopAnElement,
    .activationNames = {{"relu"}},
    .deviceExpression = [](const Op &, ArrayRef<std::string> x) { return "relu(" + x[0] + ")"; },
};

//===----------------------------------------------------------------------===//
// cast
//===----------------------------------------------------------------------===//

static Expected<Type> inferCast(const Op &op) {
  if (Error error = expectFloat(op, 0))
    return error;
  return op.operand(0)->type.withDType(*parseDType(op.identAttribute("to")));
}

template <class Real> static Error evaluateCast(EvalArgs<Real> &args) {
  // No rounding here: the reference computes in Real, so that the error of rounding is measured against it.
  mapElements<Real>(args, [](Real x) { return x; });
  return Error::success();
}

const OpDef castOp = {
    .kind = OpKind::cast,
    .mnemonic = "cast",
    .summary = "x in another floating-point type.",
    .traits = Trait::Pointwise,
    .operands = {{"x", "any shape"}},
    .attributes = {{"to", Attribute::Kind::Ident, "the type", true, {"f32", "f16", "bf16"}}},
    .infer = inferCast,
    .evaluateF32 = evaluateCast<float>,
    .evaluateF64 = evaluateCast<double>,
    .flops = [](const Op &, ElementCount) { return Expr(0); },
    .deviceExpression = [](const Op &, ArrayRef<std::string> x) { return x[0]; },
};

//===----------------------------------------------------------------------===//
// causal_mask
//===----------------------------------------------------------------------===//

static Expected<Type> inferCausalMask(const Op &op) {
  if (Error error = expectRank(op, 0, 4))
    return error;
  if (Error error = expectFloat(op, 0))
    return error;
  if (op.operandOrNull(1))
    if (Error error = expectType(op, 1, Type(DType::I32, {op.operand(0)->type.shape[0]})))
      return error;
  if (const Attribute *offset = op.attribute("offset"); offset && !op.operandOrNull(1))
    return opError(op, "attribute 'offset': expected none without positions, got " + offset->str());
  return op.operand(0)->type;
}

template <class Real> static Error evaluateCausalMask(EvalArgs<Real> &args) {
  const Tensor<Real> &s = args.operands[0];
  const Tensor<Real> *positions = args.operandOrNull(1);
  int64_t queries = s.dim(2), rowsPerBatch = s.dim(1) * queries, offset = args.op.intAttribute("offset");
  for (int64_t b = 0; positions && b < s.dim(0); ++b)
    if (int64_t position = static_cast<int64_t>(positions->data()[b]) + offset; position < 0)
      return opError(args.op, "position out of range: expected 0 or more, got " + Twine(position));
  const Attribute *window = args.op.attribute("window");
  parallelRows(s.rows(), s.lastDim(), [&](int64_t i) {
    int64_t first = positions ? static_cast<int64_t>(positions->data()[i / rowsPerBatch]) + offset : 0;
    int64_t end = first + i % queries + 1, visible = std::min(s.lastDim(), end);
    int64_t hidden = window ? std::clamp<int64_t>(end - window->asInt(), 0, visible) : 0;
    MutableArrayRef<Real> in = s.row(i), out = args.result.row(i);
    if (in.data() != out.data())
      std::copy(in.begin() + hidden, in.begin() + visible, out.begin() + hidden);
    std::fill(out.begin(), out.begin() + hidden, -std::numeric_limits<Real>::infinity());
    std::fill(out.begin() + visible, out.end(), -std::numeric_limits<Real>::infinity());
  });
  return Error::success();
}

/// Generated code adds offsets to positions and tokens of 31 bits, and subtracts windows from the sum.
constexpr int64_t mostOffset = 1 << 30;

const OpDef causalMaskOp = {
    .kind = OpKind::causalMask,
    .mnemonic = "causal_mask",
    .summary = "Keeps score [b,h,t,s] where s <= positions[b] + offset + t, of a window the last ones of these, -inf "
               "elsewhere.",
    .traits = Trait::Pointwise,
    .operands = {{"scores", "[B,H,T,S]"},
                 {"positions", "i32[B] position of each row's first query; 0 when left out", true}},
    .attributes = {{"offset",
                    Attribute::Kind::Int,
                    "added to positions; 0 when left out",
                    false,
                    {},
                    std::nullopt,
                    -mostOffset,
                    mostOffset},
                   {"window",
                    Attribute::Kind::Int,
                    "how many keys a query sees at most; all when left out",
                    false,
                    {},
                    std::nullopt,
                    1,
                    INT32_MAX}},
    .infer = inferCausalMask,
    .evaluateF32 = evaluateCausalMask<float>,
    .evaluateF64 = evaluateCausalMask<double>,
    .flops = [](const Op &, ElementCount) { return Expr(0); },
};

} // namespace kiln
