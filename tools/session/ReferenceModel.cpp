#include "tools/session/ReferenceModel.h"

#include "kernels/families/matmul/TokenScores.h"
#include "runtime/weights/PackWeight.h"
#include "support/Diagnostic.h"

namespace kiln {

/// Integers [1, n] or [n] in the form that the evaluator takes.
static Tensor<float> idTensor(ArrayRef<int64_t> shape, ArrayRef<int32_t> ids) {
  Tensor<float> tensor(shape);
  std::copy(ids.begin(), ids.end(), tensor.data());
  return tensor;
}

ReferenceModel::ReferenceModel(const ModelSource &source) : source(source) {}

Expected<Tensor<float>> ReferenceModel::loadWeight(const Value &weight, int64_t rank) {
  if (auto it = weights.find({&weight, rank}); it != weights.end())
    return it->second;
  WeightRecipe recipe = *weight.recipe;
  recipe.dtype = DType::F32;
  if (recipe.sum)
    recipe.sum = DType::F32;
  Expected<RecipeTensors> tensors = openTensors(recipe, *source.weights, rank);
  if (!tensors)
    return tensors.takeError();
  Tensor<float> tensor(recipe.shape);
  MutableArrayRef<uint8_t> bytes(reinterpret_cast<uint8_t *>(tensor.data()), tensor.size() * sizeof(float));
  if (Error error = packWeight(recipe, *tensors, bytes))
    return error;
  weights[{&weight, rank}] = tensor;
  return tensor;
}

Error ReferenceModel::loadWeights() {
  for (const auto &weight : source.module->weights)
    for (int64_t rank = 0; rank < source.module->ranks(); ++rank)
      if (Expected<Tensor<float>> tensor = loadWeight(*weight, rank); !tensor)
        return tensor.takeError();
  return Error::success();
}

std::unique_ptr<Evaluator<float>> ReferenceModel::makeEvaluator() {
  auto evaluator = std::make_unique<Evaluator<float>>(
      *source.module, [this](const Value &weight, int64_t rank) { return loadWeight(weight, rank); });
  evaluator->setResultHook(onResult);
  return evaluator;
}

/// The first result of a function, as rows of logits. The module declares the vocabulary, but its functions may differ.
/// Error: not `rows` rows, or rows of another length.
static Expected<Tensor<float>> logitsOf(Entry entry, Expected<std::vector<Tensor<float>>> results, int64_t rows,
                                        int64_t vocabulary) {
  if (!results)
    return results.takeError();
  if (results->empty())
    return makeError("@" + entryName(entry) + ": expected " + Twine(vocabulary) + " logits, got no result");
  Tensor<float> &logits = results->front();
  ArrayRef<int64_t> shape = logits.shape();
  int64_t length = shape.empty() ? 1 : shape.back();
  if (length != vocabulary)
    return makeError("@" + entryName(entry) + ": expected " + Twine(vocabulary) + " logits, got " + Twine(length));
  if (logits.size() != rows * length)
    return makeError("@" + entryName(entry) + ": expected " + Twine(rows) + " rows of logits, got " +
                     Twine(logits.size() / length));
  return std::move(logits);
}

Error ReferenceModel::prefill(ArrayRef<std::vector<int32_t>> prompts, MutableArrayRef<std::vector<float>> logits) {
  rows.resize(prompts.size());
  for (auto [row, prompt, out] : llvm::zip(rows, prompts, logits)) {
    if (prompt.empty())
      continue;
    int64_t length = static_cast<int64_t>(prompt.size());
    row.evaluator = makeEvaluator();
    row.length = length;
    auto results = row.evaluator->run(Entry::Prefill,
                                      {idTensor({1, length}, prompt), idTensor({1}, {static_cast<int32_t>(length)})});
    Expected<Tensor<float>> last = logitsOf(Entry::Prefill, std::move(results), 1, vocabSize());
    if (!last)
      return last.takeError();
    out.assign(last->elements().begin(), last->elements().end());
  }
  return Error::success();
}

Error ReferenceModel::decode(ArrayRef<int32_t> tokens, MutableArrayRef<std::vector<float>> logits) {
  for (auto [row, token, out] : llvm::zip(rows, tokens, logits)) {
    if (token == idleRow)
      continue;
    auto results = row.evaluator->run(Entry::Decode,
                                      {idTensor({1, 1}, {token}), idTensor({1}, {static_cast<int32_t>(row.length)})});
    Expected<Tensor<float>> last = logitsOf(Entry::Decode, std::move(results), 1, vocabSize());
    if (!last)
      return last.takeError();
    ++row.length;
    out.assign(last->elements().begin(), last->elements().end());
  }
  return Error::success();
}

void ReferenceModel::truncate(ArrayRef<int64_t> lengths) {
  for (auto [row, length] : llvm::zip(rows, lengths))
    if (length >= 0)
      row.length = length;
}

/// Checks that @score scores the tokens of the vocabulary: the module declares it, but its functions may differ.
Error ReferenceModel::checkScore() const {
  const Function *function = source.module->findFunction(Entry::Score);
  std::string name = "@" + entryName(Entry::Score).str();
  std::optional<Dim> other = function ? otherLogits(*function, vocabSize()) : std::nullopt;
  if (other)
    return makeError(name + ": expected " + Twine(vocabSize()) + " logits, got " + other->str());
  if (function && function->resultTypes.size() != 3)
    return makeError(name + ": expected 3 results, got " + Twine(function->resultTypes.size()));
  return Error::success();
}

Expected<std::vector<std::vector<TokenScore>>> ReferenceModel::score(ArrayRef<ScoreWindow> windows) {
  if (Error error = checkScore())
    return error;
  std::vector<std::vector<TokenScore>> all;
  for (const ScoreWindow &window : windows) {
    auto evaluator = makeEvaluator();
    auto length = static_cast<int64_t>(window.inputs.size());
    auto results =
        evaluator->run(Entry::Score, {idTensor({1, length}, window.inputs), idTensor({1, length}, window.targets)});
    if (!results)
      return results.takeError();
    auto fits = [&](const Tensor<float> &result) { return result.size() == length; };
    if (!llvm::all_of(*results, fits))
      return makeError("@" + entryName(Entry::Score) + ": expected a score for each of " + Twine(length) + " tokens");
    std::vector<TokenScore> &scores = all.emplace_back();
    for (size_t i = window.firstScored; i < window.targets.size(); ++i)
      scores.push_back({-(*results)[0].data()[i], static_cast<int32_t>((*results)[1].data()[i]) == window.targets[i]});
  }
  return all;
}

} // namespace kiln
