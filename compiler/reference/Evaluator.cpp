#include "reference/Evaluator.h"

#include "ir/Verifier.h"
#include "support/Diagnostic.h"

#include <cstring>

namespace kiln {

static Expected<SmallVector<int64_t, 4>> concreteShape(const Type &type, const DimBinding &dims) {
  SmallVector<int64_t, 4> shape;
  for (const Dim &dim : type.shape) {
    Expected<int64_t> extent = dim.expr().evaluate(dims);
    if (!extent)
      return extent.takeError();
    shape.push_back(*extent);
  }
  return shape;
}

/// The values that die at each op: inputs that no later op of the block reads. A value from outside a fused region
/// outlives the region.
static DenseMap<const Op *, SmallVector<const Value *, 2>> lastUses(const Block &block) {
  DenseMap<const Op *, SmallVector<const Value *, 2>> dying;
  DenseSet<const Value *> seen;
  for (const auto &op : llvm::reverse(block.ops()))
    for (Value *value : op->inputs())
      if (seen.insert(value).second && !value->isWeight() && !value->isState() &&
          (!block.parentOp() || (value->definingOp() && value->definingOp()->parent() == &block)))
        dying[op.get()].push_back(value);
  return dying;
}

template <class Real>
Expected<DimBinding> Evaluator<Real>::bindDims(const Function &function, ArrayRef<Tensor<Real>> arguments) const {
  if (arguments.size() != function.arguments.size())
    return makeError("@" + function.name + ": expected " + Twine(function.arguments.size()) + " arguments, got " +
                     Twine(arguments.size()));
  DimBinding dims;
  for (const auto &[argument, tensor] : llvm::zip(function.arguments, arguments)) {
    const Type &type = argument->type;
    bool fits = type.rank() == tensor.rank();
    for (size_t i = 0; fits && i < type.rank(); ++i) {
      int64_t extent = tensor.dim(i);
      const DimSymbol *symbol = type.shape[i].getSymbol();
      if (!symbol)
        fits = type.shape[i].asConstant() == extent;
      else if (extent < symbol->min || extent > symbol->max)
        return makeError("@" + function.name + ": argument %" + argument->name + ": expected " + symbol->name +
                         " from " + Twine(symbol->min) + " to " + Twine(symbol->max) + ", got " + Twine(extent));
      else
        fits = dims.insert({symbol->name, extent}).first->second == extent;
    }
    if (!fits)
      return makeError("@" + function.name + ": argument %" + argument->name + ": expected " + type.str() +
                       ", got extents " +
                       llvm::join(llvm::map_range(tensor.shape(), [](int64_t e) { return std::to_string(e); }), ","));
  }
  return dims;
}

template <class Real>
Expected<typename Evaluator<Real>::RankResults> Evaluator<Real>::runRanks(StringRef name,
                                                                          ArrayRef<Tensor<Real>> arguments) {
  const Function *function = module.findFunction(name);
  if (!function)
    return makeError("module @" + module.name + " has no function @" + name);
  Expected<DimBinding> dims = bindDims(*function, arguments);
  if (!dims)
    return dims.takeError();
  std::vector<Values> values(module.ranks());
  for (Values &own : values)
    for (const auto &[argument, tensor] : llvm::zip(function->arguments, arguments))
      own[argument.get()] = tensor;
  if (Error error = runBlock(function->body, *dims, values))
    return error;
  RankResults results;
  for (const auto &[rank, own] : llvm::enumerate(values)) {
    auto returned = operandsOf(*function->body.terminator(), *dims, static_cast<int64_t>(rank), own);
    if (!returned)
      return returned.takeError();
    results.emplace_back(returned->begin(), returned->end());
  }
  return results;
}

template <class Real>
Expected<std::vector<Tensor<Real>>> Evaluator<Real>::run(StringRef name, ArrayRef<Tensor<Real>> arguments) {
  Expected<RankResults> ranks = runRanks(name, arguments);
  if (!ranks)
    return ranks.takeError();
  std::vector<Tensor<Real>> &first = ranks->front();
  for (const auto &[rank, results] : llvm::drop_begin(llvm::enumerate(*ranks)))
    for (size_t i = 0; i < first.size(); ++i)
      if (std::memcmp(first[i].data(), results[i].data(), first[i].size() * sizeof(Real)) != 0)
        return makeError("@" + name + ", result " + Twine(i) + ": expected the same bits on all ranks, got others on " +
                         "rank " + Twine(rank) + " than on rank 0");
  return std::move(first);
}

template <class Real>
Error Evaluator<Real>::runBlock(const Block &block, const DimBinding &dims, MutableArrayRef<Values> values) {
  auto dying = lastUses(block);
  for (const auto &op : block.ops()) {
    if (op->has(Trait::Terminator))
      continue;
    if (Error error = runOp(*op, dims, dying[op.get()], values))
      return error;
    if (onResult && !block.parentOp())
      for (const auto &result : op->results())
        if (Error error = onResult(*result, values.front().find(result.get())->second))
          return error;
  }
  return Error::success();
}

template <class Real>
Error Evaluator<Real>::runFused(const Op &op, const DimBinding &dims, ArrayRef<const Value *> dying,
                                MutableArrayRef<Values> values) {
  if (Error error = runBlock(*op.region(), dims, values))
    return error;
  for (const auto &[rank, own] : llvm::enumerate(values)) {
    auto yielded = operandsOf(*op.region()->terminator(), dims, static_cast<int64_t>(rank), own);
    if (!yielded)
      return yielded.takeError();
    for (const auto &[result, tensor] : llvm::zip(op.results(), *yielded))
      own[result.get()] = tensor;
    for (const auto &inner : op.region()->ops())
      for (const auto &result : inner->results())
        own.erase(result.get());
    for (const Value *value : dying)
      own.erase(value);
  }
  return Error::success();
}

/// Where an op writes its result. An op that writes a state writes into it. An op that has read each element before it
/// writes it may reuse operand 0 if nobody else holds it, which saves a pass over memory. Any other op gets new memory.
template <class Real>
static Expected<Tensor<Real>> resultTensor(const Op &op, ArrayRef<Tensor<Real>> operands, const DimBinding &dims) {
  if (op.has(Trait::WritesState))
    return operands[0];
  auto shape = concreteShape(op.result()->type, dims);
  if (!shape)
    return shape.takeError();
  bool readsFirst = op.has(Trait::Pointwise) || op.has(Trait::RowWise);
  if (readsFirst && operands[0].isUnique() && operands[0].shape() == ArrayRef<int64_t>(*shape))
    return operands[0];
  return Tensor<Real>(*shape);
}

template <class Real>
Expected<Tensor<Real>> Evaluator<Real>::evaluate(const Op &op, const DimBinding &dims, int64_t rank,
                                                 SmallVector<Tensor<Real>, 4> operands, ArrayRef<Tensor<Real>> peers) {
  Expected<Tensor<Real>> result = resultTensor<Real>(op, operands, dims);
  if (!result)
    return result.takeError();
  EvalArgs<Real> args{op, operands, *result, rank, peers};
  Error error = Error::success();
  if constexpr (std::is_same_v<Real, float>)
    error = op.def().evaluateF32(args);
  else
    error = op.def().evaluateF64(args);
  if (error)
    return error;
  return result;
}

template <class Real>
Error Evaluator<Real>::runOp(const Op &op, const DimBinding &dims, ArrayRef<const Value *> dying,
                             MutableArrayRef<Values> values) {
  if (op.is(OpKind::fused))
    return runFused(op, dims, dying, values);
  SmallVector<SmallVector<Tensor<Real>, 4>, 1> operands;
  std::vector<Tensor<Real>> peers;
  for (const auto &[rank, own] : llvm::enumerate(values)) {
    auto read = operandsOf(op, dims, static_cast<int64_t>(rank), own);
    if (!read)
      return read.takeError();
    if (op.has(Trait::Exchange))
      peers.push_back(read->front());
    operands.push_back(std::move(*read));
    for (const Value *value : dying)
      own.erase(value);
  }
  for (const auto &[rank, own] : llvm::enumerate(values)) {
    Expected<Tensor<Real>> result = evaluate(op, dims, static_cast<int64_t>(rank), std::move(operands[rank]), peers);
    if (!result)
      return result.takeError();
    own[op.result()] = std::move(*result);
  }
  return Error::success();
}

template <class Real>
Expected<SmallVector<Tensor<Real>, 4>> Evaluator<Real>::operandsOf(const Op &op, const DimBinding &dims, int64_t rank,
                                                                   const Values &values) {
  SmallVector<Tensor<Real>, 4> operands;
  for (Value *value : op.operands()) {
    Expected<Tensor<Real>> tensor = operand(*value, dims, rank, values);
    if (!tensor)
      return tensor.takeError();
    operands.push_back(std::move(*tensor));
  }
  return operands;
}

template <class Real>
Expected<Tensor<Real>> Evaluator<Real>::operand(const Value &value, const DimBinding &dims, int64_t rank,
                                                const Values &values) {
  if (value.isState())
    return state(value, dims, rank);
  if (!value.isWeight())
    return values.find(&value)->second;
  if (auto it = weights[rank].find(&value); it != weights[rank].end())
    return it->second;
  Expected<Tensor<Real>> loaded = loadWeight(value, rank);
  if (loaded)
    weights[rank][&value] = *loaded;
  return loaded;
}

template <class Real>
Expected<Tensor<Real>> Evaluator<Real>::state(const Value &value, const DimBinding &dims, int64_t rank) {
  auto shape = concreteShape(value.type, dims);
  if (!shape)
    return shape.takeError();
  auto it = states[rank].find(value.name);
  if (it == states[rank].end()) {
    Tensor<Real> zeros(*shape);
    std::fill_n(zeros.data(), zeros.size(), Real(0));
    it = states[rank].insert({value.name, std::move(zeros)}).first;
  }
  if (it->second.shape() != ArrayRef<int64_t>(*shape))
    return makeError("state %" + value.name + " has other extents than this call's; reset the states first");
  return it->second;
}

template class Evaluator<float>;
template class Evaluator<double>;

} // namespace kiln
