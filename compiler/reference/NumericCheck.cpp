#include "reference/NumericCheck.h"

#include "reference/Evaluator.h"
#include "support/Diagnostic.h"
#include "support/Random.h"
#include "support/text/Number.h"

#include <cmath>

namespace kiln {

namespace {

/// Small extents, but different ones, so that rows, heads and sequences cannot be confused.
DimBinding smallDims(const Module &module) {
  DimBinding dims;
  constexpr int64_t extents[] = {2, 5, 3, 4};
  for (const auto &[i, dim] : llvm::enumerate(module.dims))
    dims[dim->name] = std::clamp(extents[i % std::size(extents)], dim->min, dim->max);
  return dims;
}

SmallVector<int64_t, 4> shapeAt(const Type &type, const DimBinding &dims) {
  SmallVector<int64_t, 4> shape;
  for (const Dim &dim : type.shape)
    shape.push_back(cantFail(dim.expr().evaluate(dims), "dims of a verified module have values"));
  return shape;
}

/// Element i of the random sequence of a name.
double drawNormal(uint64_t seed, StringRef name, uint64_t i) {
  uint64_t key = seed ^ llvm::xxh3_64bits(name);
  PhiloxBlock block = philox4x32({static_cast<uint32_t>(i), static_cast<uint32_t>(i >> 32), 0, 0}, key);
  return normalDouble(block[0], block[1]);
}

void fillNormal(Tensor<double> &tensor, uint64_t seed, StringRef name, double scale) {
  for (int64_t i = 0; i < tensor.size(); ++i)
    tensor.data()[i] = scale * drawNormal(seed, name, i);
}

/// The valid range [low, high] of an i32 argument, as its users require.
std::pair<int64_t, int64_t> integerRange(const Value &argument, const DimBinding &dims) {
  int64_t low = 0, high = 1 << 20;
  for (const Op *user : argument.getUsers()) {
    auto extent = [&](unsigned operand, unsigned dim) { return shapeAt(user->operand(operand)->type, dims)[dim]; };
    if (user->is(OpKind::embed)) {
      const Value &wte = *user->operand(1);
      bool isToken = user->operand(0) == &argument;
      // Rows of padding belong to no token.
      int64_t vocab = wte.recipe && !wte.recipe->transpose ? wte.recipe->sourceShape[0] : extent(1, 0);
      high = std::min(high, isToken ? vocab - 1 : extent(2, 0) - extent(0, 1));
    } else if (user->is(OpKind::lastRow)) {
      low = 1;
      high = std::min(high, extent(0, 1));
    } else if (user->is(OpKind::causalMask)) {
      const int64_t offset = user->intAttribute("offset");
      low = std::max(low, -offset);
      high = std::min(high, extent(0, 3) - extent(0, 2) - offset);
    } else if (user->is(OpKind::logProbability)) {
      high = std::min(high, user->operand(0)->type.lastDim().upperBound() - 1);
    } else if (user->is(OpKind::cacheWrite)) {
      high = std::min(high, extent(0, 2) - extent(1, 2));
    }
  }
  return {low, std::max(low, high)};
}

std::string shapeText(const Tensor<double> &tensor) {
  return "[" + llvm::join(llvm::map_range(tensor.shape(), [](int64_t extent) { return std::to_string(extent); }), ",") +
         "]";
}

Error compare(const Twine &what, const Tensor<double> &before, const Tensor<double> &after, double tolerance) {
  if (before.shape() != after.shape())
    return makeError(what + ": was of shape " + shapeText(before) + " and is of " + shapeText(after));
  double largest = 0;
  for (double value : before.elements())
    if (std::isfinite(value))
      largest = std::max(largest, std::abs(value));
  for (int64_t i = 0; i < before.size(); ++i) {
    double a = before.data()[i], b = after.data()[i];
    bool agree = a == b || (std::isnan(a) && std::isnan(b)) || std::abs(a - b) <= tolerance * largest;
    if (!agree)
      return makeError(what + ": element " + Twine(i) + " was " + numberText(a) + " and is " + numberText(b));
  }
  return Error::success();
}

/// A random tensor of a checkpoint. The scale of a matrix keeps the magnitude of sums over its rows.
Tensor<double> randomTensor(const WeightRecipe::Tensor &tensor, uint64_t seed) {
  Tensor<double> elements(tensor.shape);
  double scale = tensor.shape.size() == 2 ? 1 / std::sqrt(static_cast<double>(tensor.shape[0])) : 1;
  fillNormal(elements, seed, tensor.name, scale);
  return elements;
}

/// What a rank keeps of a tensor whose dimension `dim` is split: the first or the last one.
Tensor<double> shareOf(const Tensor<double> &whole, unsigned dim, const RankSplit &split, int64_t rank) {
  SmallVector<int64_t, 4> shape(whole.shape());
  shape[dim] = split.room(shape[dim]);
  Tensor<double> share(shape);
  std::fill_n(share.data(), share.size(), 0.0);
  // The elements of one index of that dimension, and of all: lines are those of a vector, or rows of columns.
  int64_t each = dim + 1 < whole.rank() ? whole.lastDim() : 1, line = whole.dim(dim) * each, own = shape[dim] * each;
  for (int64_t l = 0; l < whole.size() / line; ++l)
    for (RankSplit::Run run : split.runs(whole.dim(dim), rank))
      std::copy_n(whole.data() + l * line + run.from * each, run.count * each, share.data() + l * own + run.to * each);
  return share;
}

/// What the recipe makes of a rank's share of random tensors by its steps up to the sum, without rounding.
Tensor<double> combinedTensors(const WeightRecipe &recipe, uint64_t seed, int64_t rank) {
  std::vector<Tensor<double>> tensors;
  for (const WeightRecipe::Tensor &tensor : recipe.tensors()) {
    tensors.push_back(randomTensor(tensor, seed));
    if (tensor.splitDim)
      tensors.back() = shareOf(tensors.back(), *tensor.splitDim, *recipe.split, rank);
  }
  Tensor<double> &made = tensors[0];
  for (int64_t r = 0; recipe.scale && r < made.dim(0); ++r)
    for (double &value : made.row(r))
      value *= tensors[1].data()[r];
  for (int64_t r = 0; recipe.add && r < tensors[2].dim(0); ++r)
    for (int64_t c = 0; c < made.size(); ++c)
      made.data()[c] += tensors[1].data()[r] * tensors[2].row(r)[c];
  if (!recipe.sum)
    return made;
  Tensor<double> sums(ArrayRef<int64_t>(made.dim(1)));
  std::fill_n(sums.data(), sums.size(), 0.0);
  for (int64_t r = 0; r < made.dim(0); ++r)
    for (int64_t c = 0; c < made.dim(1); ++c)
      sums.data()[c] += made.row(r)[c];
  return sums;
}

} // namespace

Tensor<double> randomWeight(const Value &weight, uint64_t seed, int64_t rank) {
  const WeightRecipe &recipe = *weight.recipe;
  Tensor<double> packed(recipe.shape);
  std::fill_n(packed.data(), packed.size(), 0.0);
  Tensor<double> made = combinedTensors(recipe, seed, rank);
  if (made.rank() != 2) {
    llvm::copy(made.elements(), packed.data());
    return packed;
  }
  for (int64_t r = 0; r < made.dim(0); ++r)
    for (int64_t c = 0; c < made.dim(1); ++c)
      (recipe.transpose ? packed.row(c)[r] : packed.row(r)[c]) = made.row(r)[c];
  return packed;
}

std::vector<Tensor<double>> NumericCheck::drawArguments(const Function &function) const {
  DimBinding dims = smallDims(function.module());
  std::vector<Tensor<double>> arguments;
  for (const auto &argument : function.arguments) {
    Tensor<double> tensor(shapeAt(argument->type, dims));
    std::string name = function.name + "/" + argument->name;
    fillNormal(tensor, seed, name, 1);
    if (argument->type.dtype == DType::I32) {
      auto [low, high] = integerRange(*argument, dims);
      for (double &value : tensor.elements())
        value = static_cast<double>(low + static_cast<int64_t>(std::abs(value) * 1e6) % (high - low + 1));
    }
    arguments.push_back(std::move(tensor));
  }
  return arguments;
}

Expected<NumericCheck::Record> NumericCheck::evaluate(const Module &module, const Function &function,
                                                      std::vector<Tensor<double>> arguments) const {
  Record record;
  Evaluator<double> evaluator(module, [&](const Value &weight, int64_t rank) -> Expected<Tensor<double>> {
    return randomWeight(weight, seed, rank);
  });
  for (const auto &state : module.states)
    for (int64_t rank = 0; rank < module.ranks(); ++rank) {
      Tensor<double> tensor(shapeAt(state->type, smallDims(module)));
      fillNormal(tensor, seed + static_cast<uint64_t>(rank), state->name, 1);
      evaluator.setState(state->name, tensor, rank);
      record.states[{state->name, rank}] = tensor; // shares its elements with the evaluator's tensor
    }
  auto results = evaluator.run(function.name, arguments);
  if (!results)
    return results.takeError();
  walk(function.body, [&](const Op &op) {
    if (op.has(Trait::WritesState))
      record.written.insert(op.operand(0)->name);
  });
  record.arguments = std::move(arguments);
  record.results = std::move(*results);
  return record;
}

Error NumericCheck::before(const Module &module) {
  records.clear();
  for (const auto &function : module.functions) {
    Expected<Record> record = evaluate(module, *function, drawArguments(*function));
    if (!record)
      return record.takeError();
    records[function->name] = std::move(*record);
  }
  return Error::success();
}

/// Checks that both records have the same number of results and the same states, and that these agree.
Error NumericCheck::compareRecords(StringRef function, const Record &old, const Record &now, double tolerance) {
  if (old.results.size() != now.results.size())
    return makeError("@" + function + ": had " + Twine(old.results.size()) + " results and has " +
                     Twine(now.results.size()));
  for (size_t i = 0; i < old.results.size(); ++i)
    if (Error error = compare("@" + function + ", result " + Twine(i), old.results[i], now.results[i], tolerance))
      return error;
  for (const auto &[key, tensor] : old.states) {
    const auto &[state, rank] = key;
    auto it = now.states.find(key);
    if (it == now.states.end() && old.written.count(state))
      return makeError("@" + function + ": wrote state %" + state + ", which is gone");
    if (it == now.states.end())
      continue;
    std::string of = rank > 0 ? " of rank " + std::to_string(rank) : "";
    if (Error error = compare("@" + function + ", state %" + state + of, tensor, it->second, tolerance))
      return error;
  }
  return Error::success();
}

Error NumericCheck::after(const Module &module, double tolerance) {
  for (const auto &[name, old] : records) {
    const Function *function = module.findFunction(name);
    if (!function)
      return makeError("@" + name + " is gone");
    Expected<Record> now = evaluate(module, *function, old.arguments);
    if (!now)
      return now.takeError();
    if (Error error = compareRecords(name, old, *now, tolerance))
      return error;
  }
  return Error::success();
}

} // namespace kiln
