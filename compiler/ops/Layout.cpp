// split_heads, merge_heads, last_row, slice and cache_write: ops that move elements and compute nothing.
#include "ops/Checks.h"
#include "ops/DeviceForm.h"
#include "ops/OpTable.h"
#include "ops/Tensor.h"

namespace kiln {

static Expr noFlops(const Op &, ElementCount) { return Expr(0); }

//===----------------------------------------------------------------------===//
// split_heads
//===----------------------------------------------------------------------===//

static Expected<Type> inferSplitHeads(const Op &op) {
  if (Error error = expectRank(op, 0, 3))
    return error;
  if (Error error = expectFloat(op, 0))
    return error;
  const Type &x = op.operand(0)->type;
  int64_t heads = op.intAttribute("heads"), parts = op.intAttribute("parts"), part = op.intAttribute("part");
  std::optional<int64_t> width = x.lastDim().asConstant();
  if (heads < 1 || parts < 1 || part < 0 || part >= parts)
    return opError(op, "expected heads and parts of 1 or more and part from 0 to parts - 1, got heads = " +
                           Twine(heads) + ", part = " + Twine(part) + ", parts = " + Twine(parts));
  if (!width || heads > *width / parts || *width % (heads * parts) != 0)
    return opError(op, "expected a last extent that is a multiple of heads * parts (" + Twine(heads) + " * " +
                           Twine(parts) + "), got " + x.str());
  return Type(x.dtype, {x.shape[0], heads, x.shape[1], *width / (heads * parts)});
}

template <class Real> static Error evaluateSplitHeads(EvalArgs<Real> &args) {
  const Tensor<Real> &x = args.operands[0], &out = args.result;
  int64_t heads = out.dim(1), tokens = out.dim(2), size = out.dim(3);
  int64_t first = args.op.intAttribute("part") * heads * size;
  parallelRows(out.rows(), size, [&](int64_t i) {
    int64_t t = i % tokens, h = i / tokens % heads, b = i / tokens / heads;
    const Real *from = x.row(b * tokens + t).data() + first + h * size;
    std::copy(from, from + size, out.row(i).data());
  });
  return Error::success();
}

static void mapSplitHeads(const Op &op, Coordinates &at) {
  int64_t size = *op.result()->type.lastDim().asConstant();
  int64_t width = op.intAttribute("heads") * size, parts = op.intAttribute("parts"), part = op.intAttribute("part");
  std::string col = at.last().str(), inPart = at.inPart;
  if (!at.part.empty()) {
    at.guards.push_back(at.part + " == " + std::to_string(part));
  } else {
    if (part > 0)
      at.guards.push_back(col + " >= " + std::to_string(part * width));
    if (part + 1 < parts)
      at.guards.push_back(col + " < " + std::to_string((part + 1) * width));
    inPart = minus(col, part * width);
    if (part > 0)
      inPart = "(" + inPart + ")";
  }
  at.index = {at.index[0], inPart + " / " + std::to_string(size), at.index[1], inPart + " % " + std::to_string(size)};
  at.row.clear();
}

const OpDef splitHeadsOp = {
    .kind = OpKind::splitHeads,
    .mnemonic = "split_heads",
    .summary = "One part (query, key or value) of the last dim as heads: [B,T,parts*H*D] -> [B,H,T,D].",
    .traits = Trait::Layout,
    .operands = {{"x", "[B,T,parts*H*D]"}},
    .attributes = {{"heads", Attribute::Kind::Int, "number of heads H"},
                   {"part", Attribute::Kind::Int, "which part: 0 is the query, 1 the key, 2 the value"},
                   {"parts", Attribute::Kind::Int, "how many parts lie side by side"}},
    .infer = inferSplitHeads,
    .evaluateF32 = evaluateSplitHeads<float>,
    .evaluateF64 = evaluateSplitHeads<double>,
    .flops = noFlops,
    .mapCoordinates = mapSplitHeads,
    .label = [](const Op &) -> StringRef { return "split"; },
};

//===----------------------------------------------------------------------===//
// merge_heads
//===----------------------------------------------------------------------===//

static Expected<Type> inferMergeHeads(const Op &op) {
  if (Error error = expectRank(op, 0, 4))
    return error;
  if (Error error = expectFloat(op, 0))
    return error;
  const Type &x = op.operand(0)->type;
  if (!x.shape[1].asConstant() || !x.shape[3].asConstant())
    return opError(op, "expected constant heads and head size, got " + x.str());
  return Type(x.dtype, {x.shape[0], x.shape[2], *x.shape[1].asConstant() * *x.shape[3].asConstant()});
}

template <class Real> static Error evaluateMergeHeads(EvalArgs<Real> &args) {
  const Tensor<Real> &x = args.operands[0];
  int64_t heads = x.dim(1), tokens = x.dim(2), size = x.dim(3);
  parallelRows(x.rows(), size, [&](int64_t i) {
    int64_t t = i % tokens, h = i / tokens % heads, b = i / tokens / heads;
    llvm::copy(x.row(i), args.result.row(b * tokens + t).data() + h * size);
  });
  return Error::success();
}

static void mapMergeHeads(const Op &op, Coordinates &at) {
  int64_t size = *op.operand(0)->type.lastDim().asConstant();
  at.index = {at.index[0], at.index[2], plus(times(at.index[1], size), at.index[3])};
  at.row.clear();
}

const OpDef mergeHeadsOp = {
    .kind = OpKind::mergeHeads,
    .mnemonic = "merge_heads",
    .summary = "Heads side by side: [B,H,T,D] -> [B,T,H*D].",
    .traits = Trait::Layout,
    .operands = {{"x", "[B,H,T,D]"}},
    .infer = inferMergeHeads,
    .evaluateF32 = evaluateMergeHeads<float>,
    .evaluateF64 = evaluateMergeHeads<double>,
    .flops = noFlops,
    .mapCoordinates = mapMergeHeads,
};

//===----------------------------------------------------------------------===//
// last_row
//===----------------------------------------------------------------------===//

static Expected<Type> inferLastRow(const Op &op) {
  const Type &x = op.operand(0)->type;
  if (x.rank() != 4)
    if (Error error = expectRank(op, 0, 3))
      return error;
  if (Error error = expectFloat(op, 0))
    return error;
  if (Error error = expectType(op, 1, Type(DType::I32, {x.shape[0]})))
    return error;
  Type result(outDType(op, x.dtype), x.shape);
  result.shape[x.rank() - 2] = 1;
  return result;
}

template <class Real> static Error evaluateLastRow(EvalArgs<Real> &args) {
  const Tensor<Real> &x = args.operands[0], &lengths = args.operands[1];
  const int64_t heads = args.result.rows() / x.dim(0), tokens = x.rows() / args.result.rows();
  for (int64_t i = 0; i < args.result.rows(); ++i) {
    int64_t length = static_cast<int64_t>(lengths.data()[i / heads]);
    if (length < 1 || length > tokens)
      return opError(args.op, "length out of range: expected 1 to " + Twine(tokens) + ", got " + Twine(length));
    llvm::copy(x.row(i * tokens + length - 1), args.result.row(i).data());
  }
  return Error::success();
}

static void mapLastRow(const Op &op, Coordinates &at) {
  std::string &token = at.index[at.index.size() - 2];
  at.guards.push_back(token + " == " + at.elementOf(*op.operand(1), at.index[0]) + " - 1");
  token = "0";
  at.row = at.index.size() == 3 ? at.index[0] : "";
}

const OpDef lastRowOp = {
    .kind = OpKind::lastRow,
    .mnemonic = "last_row",
    .summary =
        "Row lengths[b] - 1 of each sequence, or of each of its heads: [B,T,C] -> [B,1,C], [B,H,T,D] -> [B,H,1,D].",
    .traits = Trait::Layout,
    .operands = {{"x", "[B,T,C] or [B,H,T,D]"}, {"lengths", "i32[B], each from 1 to T"}},
    .attributes = {outSpec("result type; that of x when left out")},
    .infer = inferLastRow,
    .evaluateF32 = evaluateLastRow<float>,
    .evaluateF64 = evaluateLastRow<double>,
    .flops = noFlops,
    .mapCoordinates = mapLastRow,
    .label = [](const Op &) -> StringRef { return "last"; },
};

//===----------------------------------------------------------------------===//
// slice
//===----------------------------------------------------------------------===//

static Expected<Type> inferSlice(const Op &op) {
  if (Error error = expectFloat(op, 0))
    return error;
  Type result = op.operand(0)->type;
  int64_t size = op.intAttribute("size");
  std::optional<int64_t> width = result.lastDim().asConstant();
  if (!width || size < 1 || size > *width)
    return opError(op, "attribute 'size': expected 1 to the last extent of " + result.str() + ", got " + Twine(size));
  result.shape.back() = size;
  return result;
}

template <class Real> static Error evaluateSlice(EvalArgs<Real> &args) {
  int64_t size = args.result.lastDim();
  parallelRows(args.result.rows(), size,
               [&](int64_t i) { llvm::copy(args.operands[0].row(i).take_front(size), args.result.row(i).data()); });
  return Error::success();
}

static void mapSlice(const Op &op, Coordinates &at) {
  at.guards.push_back(at.last().str() + " < " + std::to_string(op.intAttribute("size")));
}

const OpDef sliceOp = {
    .kind = OpKind::slice,
    .mnemonic = "slice",
    .summary = "The first `size` elements of the last dim; drops the columns that padding added.",
    .traits = Trait::Layout,
    .operands = {{"x", "[...,N]"}},
    .attributes = {{"size", Attribute::Kind::Int, "how many elements to keep"}},
    .infer = inferSlice,
    .evaluateF32 = evaluateSlice<float>,
    .evaluateF64 = evaluateSlice<double>,
    .flops = noFlops,
    .mapCoordinates = mapSlice,
};

//===----------------------------------------------------------------------===//
// cache_write
//===----------------------------------------------------------------------===//

static Expected<Type> inferCacheWrite(const Op &op) {
  const Type &cache = op.operand(0)->type, &x = op.operand(1)->type;
  for (unsigned i : {0, 1})
    if (Error error = expectRank(op, i, 4))
      return error;
  if (Error error = expectFloat(op, 0))
    return error;
  if (Error error = expectFloatShape(op, 1, {cache.shape[0], cache.shape[1], x.shape[2], cache.shape[3]}))
    return error;
  if (x.shape[2].upperBound() > cache.shape[2].upperBound())
    return opError(op, "expected at most as many rows as the cache holds (" + cache.shape[2].str() + "), got " +
                           x.shape[2].str() + " up to " + Twine(x.shape[2].upperBound()));
  if (op.operandOrNull(2))
    if (Error error = expectType(op, 2, Type(DType::I32, {cache.shape[0]})))
      return error;
  return cache;
}

template <class Real> static Error evaluateCacheWrite(EvalArgs<Real> &args) {
  const Tensor<Real> &x = args.operands[1], *positions = args.operandOrNull(2);
  int64_t heads = x.dim(1), tokens = x.dim(2), capacity = args.result.dim(2);
  for (int64_t i = 0; i < x.rows(); ++i) {
    int64_t t = i % tokens, bh = i / tokens;
    int64_t position = t + (positions ? static_cast<int64_t>(positions->data()[bh / heads]) : 0);
    if (position < 0 || position >= capacity)
      return opError(args.op,
                     "position out of range: expected 0 to " + Twine(capacity - 1) + ", got " + Twine(position));
    llvm::copy(x.row(i), args.result.row(bh * capacity + position).data());
  }
  return Error::success();
}

static void mapCacheWrite(const Op &op, Coordinates &at) {
  if (Value *positions = op.operandOrNull(2))
    at.index[2] = plus(at.elementOf(*positions, at.index[0]), at.index[2]);
  at.row.clear();
}

const OpDef cacheWriteOp = {
    .kind = OpKind::cacheWrite,
    .mnemonic = "cache_write",
    .summary = "Writes x into rows positions[b] + t of a cache; the result is the cache.",
    .traits = Trait::Layout | Trait::WritesState,
    .operands = {{"cache", "[B,H,P,D]", false, true},
                 {"x", "[B,H,T,D]"},
                 {"positions", "i32[B] row of each sequence's first token; 0 when left out", true}},
    .infer = inferCacheWrite,
    .evaluateF32 = evaluateCacheWrite<float>,
    .evaluateF64 = evaluateCacheWrite<double>,
    .flops = noFlops,
    .mapCoordinates = mapCacheWrite,
    .label = [](const Op &) -> StringRef { return "cache"; },
};

} // namespace kiln
