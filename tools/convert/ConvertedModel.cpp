#include "tools/convert/ConvertedModel.h"

#include "frontend/BuildModule.h"
#include "runtime/weights/PackWeight.h"
#include "support/Diagnostic.h"

namespace kiln {

/// Finds the types of the model's tensors.
static Error addTensors(ConvertedModel &model, ArrayRef<WeightRecipe::Tensor> tensors) {
  for (const WeightRecipe::Tensor &tensor : tensors) {
    ConvertedModel::Tensor &added = model.tensors.emplace_back();
    added.name = tensor.name.str();
    added.shape = tensor.shape;
    if (model.file) {
      const StoredTensor &stored = model.file->tensors.find(tensor.name)->second;
      added.stored = stored.type;
      added.dtype = dtypeOf(stored.originalType.value_or(stored.type));
      continue;
    }
    Expected<TensorView> view = model.checkpoint->tensor(tensor.name, tensor.shape);
    if (!view)
      return view.takeError();
    added.stored = storedTypeOf(view->dtype);
    added.dtype = view->dtype;
  }
  return Error::success();
}

static Error openWeights(ConvertedModel &model) {
  std::unique_ptr<Module> module = buildModule(model.config, {}, *model.sources);
  std::vector<WeightRecipe::Tensor> tensors;
  for (const auto &weight : module->weights)
    llvm::append_range(tensors, weight->recipe->tensors());
  if (Error error = Checkpoint::open(model.path).moveInto(model.checkpoint))
    return error;
  if (Error error = model.checkpoint->expectModel(tensors))
    return error;
  return addTensors(model, tensors);
}

static Error openVocabulary(ConvertedModel &model) {
  if (!hasVocabulary(model.path))
    return Error::success();
  Expected<Vocabulary> vocabulary = loadVocabulary(model.path);
  if (!vocabulary)
    return vocabulary.takeError();
  int64_t tokens = static_cast<int64_t>(vocabulary->tokens.size()), most = model.config.vocabSize.value;
  if (tokens > most)
    return makeFileError(model.path, "the vocabulary has " + Twine(tokens) + " tokens, the model only " + Twine(most));
  model.vocabulary = std::move(*vocabulary);
  return Error::success();
}

Expected<ConvertedModel> openForConversion(StringRef path) {
  ConvertedModel model;
  model.path = path.str();
  model.sources = std::make_unique<SourceManager>();
  if (llvm::sys::fs::exists(path) && !llvm::sys::fs::is_directory(path) && !isModelFile(path))
    return makeFileError(path, "expected a model with weights: a directory with config.json and model.safetensors, a "
                               "GGUF file or a model of llm.c");
  if (isModelFile(path)) {
    if (Error error = openModelFile(path).moveInto(model.file))
      return error;
    model.configText = model.file->config;
  }
  if (Error error = readModelConfig(path, *model.sources).moveInto(model.config))
    return error;
  if (Error error = openWeights(model))
    return error;
  if (Error error = openVocabulary(model))
    return error;
  return model;
}

Error writeTensor(raw_ostream &os, const ConvertedModel &model, const ConvertedModel::Tensor &tensor, DType dtype,
                  bool transposes) {
  Expected<TensorView> view = model.checkpoint->tensor(tensor.name, tensor.shape);
  if (!view)
    return view.takeError();
  WeightRecipe recipe{.source = tensor.name,
                      .sourceShape = tensor.shape,
                      .transpose = transposes,
                      .shape = tensor.shape,
                      .dtype = dtype};
  if (transposes)
    std::swap(recipe.shape[0], recipe.shape[1]);
  Expected<int64_t> size = packedSize(recipe);
  if (!size)
    return size.takeError();
  std::vector<uint8_t> bytes(*size);
  if (Error error = packWeight(recipe, *view, bytes))
    return error;
  os.write(reinterpret_cast<const char *>(bytes.data()), bytes.size());
  return Error::success();
}

std::optional<int64_t> endOfText(const ConvertedModel &model) {
  if (!model.config.eosTokens.empty())
    return model.config.eosTokens.front();
  if (!model.vocabulary)
    return std::nullopt;
  auto known = model.vocabulary->specials.find("<|endoftext|>");
  return known == model.vocabulary->specials.end() ? std::nullopt : std::optional<int64_t>(known->second);
}

} // namespace kiln
