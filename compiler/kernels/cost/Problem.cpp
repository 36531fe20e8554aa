#include "kernels/cost/Problem.h"

#include "ops/Region.h"

namespace kiln {

Expr rowCount(const Type &type) {
  Expr product(1);
  for (const Dim &dim : ArrayRef<Dim>(type.shape).drop_back())
    product = product * dim.expr();
  return product;
}

const Value &walkedValue(const Op &op) {
  if (op.has(Trait::WritesState))
    return *op.operand(1);
  bool gathers = op.is(OpKind::embed) || op.is(OpKind::lastRow) || op.is(OpKind::causalMask);
  return gathers ? *op.result() : *op.operand(0);
}

/// The slice that is the only reader of a product inside its region, normalised or not: columns after it are padding.
static const Op *soleSlice(const Value &value) {
  const Op *reader = value.hasOneUse() ? value.getUsers()[0] : nullptr;
  if (reader && reader->is(OpKind::normalizeProduct) && reader->operand(0) == &value)
    return soleSlice(*reader->result());
  return reader && reader->is(OpKind::slice) ? reader : nullptr;
}

Dim computedColumns(const Value &product) {
  const Op *slice = soleSlice(product);
  return slice ? Dim(slice->intAttribute("size")) : product.type.lastDim();
}

int64_t mostOutputVec(const Op &product) {
  return dtypeSize(product.operand(1)->type.dtype) == 2 || product.attribute("precision") ? 8 : 4;
}

bool keepsVectorsWhole(const Op &move, const Op &product) {
  const int64_t cols = computedColumns(*product.result()).asConstant().value_or(1);
  const int64_t vec = widestVector(cols, mostOutputVec(product));
  if (move.is(OpKind::slice))
    return move.intAttribute("size") % vec == 0;
  return !move.is(OpKind::splitHeads) || *move.result()->type.lastDim().asConstant() % vec == 0;
}

MatmulProblem matmulProblem(const Op &op) {
  const Op &product = *anchor(op);
  const Type &a = product.operand(0)->type, &out = product.result()->type;
  MatmulProblem problem;
  problem.cols = out.lastDim().expr();
  problem.depth = a.lastDim().expr();
  if (product.is(OpKind::matmul)) {
    problem.rows = rowCount(out);
    problem.transposed = product.boolAttribute("transpose_b");
    if (op.region())
      problem.cols = computedColumns(*product.result()).expr();
    return problem;
  }
  problem.batch = out.shape[0].expr() * out.shape[1].expr();
  problem.rows = out.shape[2].expr();
  problem.transposed = product.is(OpKind::qk);
  return problem;
}

bool hasOneToken(const Type &type) { return type.rank() == 3 && type.shape[1] == Dim(1); }

int64_t verifiedTokens(const Module &module) {
  const Function *verify = module.findFunction(Entry::Verify);
  if (!verify || verify->arguments.empty() || verify->arguments[0]->type.rank() != 2)
    return 1;
  return verify->arguments[0]->type.shape[1].asConstant().value_or(1);
}

bool hasFewTokens(const Op &op, const Type &type) {
  if (type.rank() != 3)
    return false;
  const Function &function = *op.parent()->function();
  return type.shape[1] == Dim(1) ||
         (findEntry(function.name) == Entry::Verify && type.shape[1] == Dim(verifiedTokens(function.module())));
}

bool isProductOfFewTokens(const Op &op) {
  const Op &product = *anchor(op);
  return product.is(OpKind::matmul) && hasFewTokens(op, product.result()->type);
}

bool isAtLengths(const Op &mask) { return mask.intAttribute("offset") < 0; }

bool attendsToCache(const Op &op) {
  const Op *mask = op.region() ? findInRegion(op, OpKind::causalMask) : nullptr;
  return mask && mask->operandOrNull(1) && !isAtLengths(*mask) && mask->result()->type.shape[2] == Dim(1) &&
         !isVerified(op);
}

bool isPowerOfTwo(int64_t value) { return value > 0 && llvm::isPowerOf2_64(static_cast<uint64_t>(value)); }

int64_t widestVector(int64_t extent, int64_t limit) {
  int64_t width = 1;
  while (2 * width <= limit && extent % (2 * width) == 0)
    width *= 2;
  return width;
}

bool hasLeftOperandInMemory(const Op &op) {
  const Op *producer = anchor(op)->operand(0)->definingOp();
  return !producer || producer->parentOp() != &op;
}

bool usesGroups(const Op &op) {
  return op.region() && llvm::any_of(op.region()->ops(), [](const auto &inner) {
           return inner->is(OpKind::groupMean) || inner->is(OpKind::mergedRstd);
         });
}

bool computesStatistics(const Op &op) {
  return op.region() && anchor(op)->is(OpKind::matmul) && findInRegion(op, OpKind::rowRstd);
}

bool sumsParts(const Op &op) {
  return contractionsOf(op) == 1 && anchor(op)->is(OpKind::matmul) && findInRegion(op, OpKind::allReduce);
}

const Op *findInRegion(const Op &fused, OpKind kind) {
  for (const auto &op : fused.region()->ops())
    if (op->is(kind))
      return op.get();
  return nullptr;
}

bool isFusedAttention(const Op &op) {
  if (!op.region() || !anchor(op)->is(OpKind::qk))
    return false;
  for (OpKind kind : {OpKind::causalMask, OpKind::softmax, OpKind::pv})
    if (!findInRegion(op, kind))
      return false;
  std::optional<int64_t> size = anchor(op)->operand(0)->type.lastDim().asConstant();
  return size && *size % 8 == 0 && *size <= 256 &&
         findInRegion(op, OpKind::pv)->operand(1)->type.lastDim() == Dim(*size);
}

bool hasFewQueries(const Op &op) {
  const Dim &queries = anchor(op)->operand(0)->type.shape[2];
  const Function &function = *op.parent()->function();
  return queries == Dim(1) ||
         (findEntry(function.name) == Entry::Verify && queries == Dim(verifiedTokens(function.module())));
}

/// Whether all ops between product and mask multiply by a positive constant.
static bool hasConstantFactor(const Op &op) {
  for (const auto &inner : op.region()->ops()) {
    if (inner->is(OpKind::causalMask))
      return true;
    bool isFactor = inner->is(OpKind::scale) && inner->floatAttribute("factor") > 0;
    if (inner->has(Trait::Pointwise) && !isFactor)
      return false;
  }
  return true;
}

bool isTensorAttention(const Op &op) {
  if (!isFusedAttention(op) || !hasConstantFactor(op))
    return false;
  const Type &q = anchor(op)->operand(0)->type, &k = anchor(op)->operand(1)->type;
  const Type &v = findInRegion(op, OpKind::pv)->operand(1)->type;
  bool is16Bit = q.dtype == DType::BF16 || q.dtype == DType::F16;
  return is16Bit && k.dtype == q.dtype && v.dtype == q.dtype && !hasFewQueries(op);
}

bool isMaskedScores(const Op &op) {
  if (!op.region() || !anchor(op)->is(OpKind::qk) || op.results().size() != 1)
    return false;
  const Op &last = *op.region()->terminator()->operand(0)->definingOp();
  bool endsInMask = last.is(OpKind::causalMask) && !last.operandOrNull(1);
  auto fits = [](const auto &inner) {
    return inner->is(OpKind::qk) || inner->is(OpKind::scale) || inner->is(OpKind::causalMask) ||
           inner->has(Trait::Terminator);
  };
  return endsInMask && llvm::all_of(op.region()->ops(), fits) &&
         anchor(op)->operand(0)->type.lastDim().asConstant().has_value();
}

AttentionProblem attentionProblem(const Op &op) {
  const Type &q = anchor(op)->operand(0)->type, &k = anchor(op)->operand(1)->type;
  const Attribute *window = findInRegion(op, OpKind::causalMask)->attribute("window");
  return {q.shape[0].expr(),         q.shape[1].expr(),  q.shape[2].expr(),           k.shape[2].expr(),
          *q.lastDim().asConstant(), dtypeSize(k.dtype), window ? window->asInt() : 0};
}

int64_t keysOfRange(const Op &op, int64_t ranges) {
  constexpr int64_t wholeSteps = 128; // of every template
  if (ranges <= 1)
    return 0;
  const int64_t most = valueAt(attentionProblem(op).keys, upperBounds(op));
  return static_cast<int64_t>(llvm::alignTo(llvm::divideCeil(most, ranges), wholeSteps));
}

double visibleKeys(const AttentionProblem &problem, double queries) {
  double half = queries / 2;
  return problem.window ? std::min(half, static_cast<double>(problem.window)) : half;
}

int64_t valueAt(const Expr &expr, const DimBinding &dims) {
  return cantFail(expr.evaluate(dims), "kernels: formula without a value");
}

DimBinding upperBounds(const Op &op) {
  const Function &function = *op.parent()->function();
  DimBinding dims;
  for (const auto &dim : function.module().dims)
    dims[dim->name] = dim->max;
  const DimSymbol *batch = function.module().batchDim();
  if (const Attribute *most = findAttribute(function.attributes, FunctionAttribute::sequences); most && batch)
    dims[batch->name] = std::clamp(most->asInt(), batch->min, batch->max);
  return dims;
}

bool isVerified(const Op &op) {
  const Function &function = *op.parent()->function();
  std::optional<Entry> entry = findEntry(function.name);
  return (entry == Entry::Decode || entry == Entry::Verify) && verifiedTokens(function.module()) > 1;
}

DimBinding boundsToChooseFor(const Op &op) {
  DimBinding dims = upperBounds(op);
  const Module &module = op.parent()->function()->module();
  if (isVerified(op) && op.parent()->function() == module.findFunction(Entry::Decode) && module.batchDim())
    dims[module.batchDim()->name] *= verifiedTokens(module);
  return dims;
}

DimBinding lowerBounds(const Op &op) {
  DimBinding dims;
  for (const auto &dim : op.parent()->function()->module().dims)
    dims[dim->name] = dim->min;
  return dims;
}

static SmallVector<const DimSymbol *, 4> rowSymbols(const Op &op) {
  SmallVector<const DimSymbol *, 4> symbols;
  for (const Dim &dim : anchor(op)->result()->type.shape)
    if (const DimSymbol *symbol = dim.getSymbol(); symbol && !llvm::is_contained(symbols, symbol))
      symbols.push_back(symbol);
  return symbols;
}

Expr rowsOf(const Op &op) {
  Expr rows(1);
  for (const DimSymbol *symbol : rowSymbols(op))
    rows = rows * Dim(symbol).expr();
  return rows;
}

const DimSymbol *tokensOfRows(const Op &op) {
  const DimSymbol *tokens = op.parent()->function()->module().tokensDim();
  return tokens && llvm::is_contained(rowSymbols(op), tokens) ? tokens : nullptr;
}

DimBinding boundsForRows(const Op &op, int64_t rows, int64_t tokens) {
  DimBinding dims = upperBounds(op);
  const DimSymbol *limited = tokens > 0 ? tokensOfRows(op) : nullptr;
  const auto symbols = rowSymbols(op);
  auto take = [&](const DimSymbol *symbol, int64_t wanted, int64_t most) {
    dims[symbol->name] = std::clamp(wanted, symbol->min, most);
    return dims[symbol->name];
  };
  // Use as few sequences as possible: the innermost dim gets its maximum.
  int64_t left = rows;
  for (const DimSymbol *symbol : llvm::reverse(symbols)) {
    int64_t most = symbol == limited ? std::clamp(tokens, symbol->min, symbol->max) : symbol->max;
    left = static_cast<int64_t>(llvm::divideCeil(left, take(symbol, left, most)));
  }
  // If these are more rows, shorter sequences do: 1024 rows of up to 768 tokens are 2 times 512.
  for (const DimSymbol *symbol : llvm::reverse(symbols)) {
    int64_t most = dims[symbol->name], others = 1;
    for (const DimSymbol *other : symbols)
      others *= other == symbol ? 1 : dims[other->name];
    take(symbol, static_cast<int64_t>(llvm::divideCeil(rows, others)), most);
  }
  return dims;
}

} // namespace kiln
