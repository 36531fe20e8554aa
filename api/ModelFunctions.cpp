#include "api/Functions.h"
#include "api/Handles.h"
#include "api/ModelChoices.h"

#include "tools/session/UsageError.h"

namespace kiln::api {

static Expected<std::shared_ptr<const OpenedModel>> openedModel(const char *path, const KilnModelOptions &options) {
  std::string device = optionalText(options.device).value_or("auto");
  if (!isDeviceName(device))
    return makeUsageError("device: expected auto, cpu, emulate or cuda:N, got '" + device + "'");
  if (Error error = checkBatch("batch", options.batch))
    return error;
  if (options.weights && options.randomWeights)
    return makeMisuse("randomWeights: expected no weights besides, got " + Twine(options.weights));
  EngineOptions onDevice;
  onDevice.device = resolveDevice(device);
  ModelRequest request;
  request.model = path;
  request.weights.path = optionalText(options.weights).value_or("");
  if (options.randomWeights)
    request.weights.randomSeed = *options.randomWeights;
  if (Error error = readChoices(options).moveInto(request.pipeline))
    return error;
  request.batch = options.batch;
  request.device = onDevice.device;
  request.reference = referenceUse(onDevice);
  Expected<ModelSource> source = kiln::openModel(request);
  if (!source)
    return source.takeError();
  auto opened = std::make_shared<OpenedModel>(
      OpenedModel{std::move(*source), onDevice.device, options.batch, PlanModelInfo(), {}});
  opened->info = opened->source.model();
  opened->eosTokens.assign(opened->info.eosTokens.begin(), opened->info.eosTokens.end());
  return std::shared_ptr<const OpenedModel>(std::move(opened));
}

KilnError *openModel(const char *path, const KilnModelOptions *given, KilnModel **model) noexcept {
  return guarded([&]() -> Error {
    if (Error error = expectGiven(model, "model"))
      return error;
    *model = nullptr;
    if (Error error = expectGiven(path, "path"))
      return error;
    Expected<KilnModelOptions> options = readOptions(given, KILN_MODEL_OPTIONS, "KILN_MODEL_OPTIONS");
    if (!options)
      return options.takeError();
    auto opened = openedModel(path, *options);
    if (!opened)
      return opened.takeError();
    *model = new KilnModel{std::move(*opened)};
    return Error::success();
  });
}

void releaseModel(KilnModel *model) noexcept { delete model; }

KilnError *modelInfo(const KilnModel *model, KilnModelInfo *to) noexcept {
  return guarded([&]() -> Error {
    if (Error error = expectGiven(model, "model"))
      return error;
    const OpenedModel &opened = *model->opened;
    KilnModelInfo info = KILN_MODEL_INFO;
    info.name = opened.info.name.c_str();
    info.device = opened.device.c_str();
    info.vocabularySize = opened.info.vocabulary;
    info.contextLength = opened.info.context;
    info.layers = opened.info.layers;
    info.batch = opened.batch;
    info.tokenCount = opened.source.tokenizer ? opened.source.tokenizer->vocabSize() : 0;
    info.eosTokens = opened.eosTokens.data();
    info.eosTokenCount = opened.eosTokens.size();
    info.beginToken = opened.source.beginToken().value_or(-1);
    return writeResult(info, to, "info", "KILN_MODEL_INFO");
  });
}

/// The model's tokenizer. Error: no model, or one without a vocabulary.
static Expected<const Tokenizer *> tokenizerOf(const KilnModel *model) {
  if (Error error = expectGiven(model, "model"))
    return error;
  const ModelSource &source = model->opened->source;
  if (!source.tokenizer)
    return makeFileError(source.filesPath, "no vocabulary here (vocab.json and merges.txt, or tokenizer.json)");
  return &*source.tokenizer;
}

/// Copies as many elements as there is room for, and sets `count` to the number that there are.
template <class Element>
static Error copyOut(ArrayRef<Element> all, Element *to, size_t capacity, StringRef name, size_t *count) {
  if (Error error = expectArray(to, capacity, name))
    return error;
  if (Error error = expectGiven(count, "the number of " + name.str()))
    return error;
  llvm::copy(all.take_front(capacity), to);
  *count = all.size();
  return Error::success();
}

KilnError *tokenize(const KilnModel *model, const char *text, size_t length, int32_t special, int32_t *tokens,
                    size_t capacity, size_t *count) noexcept {
  return guarded([&]() -> Error {
    Expected<const Tokenizer *> tokenizer = tokenizerOf(model);
    if (!tokenizer)
      return tokenizer.takeError();
    if (Error error = expectArray(text, length, "text"))
      return error;
    std::vector<int32_t> ids = (*tokenizer)->encode(StringRef(text, length), special != 0);
    return copyOut(ArrayRef(ids), tokens, capacity, "tokens", count);
  });
}

KilnError *detokenize(const KilnModel *model, const int32_t *tokens, size_t count, char *text, size_t capacity,
                      size_t *length) noexcept {
  return guarded([&]() -> Error {
    Expected<const Tokenizer *> tokenizer = tokenizerOf(model);
    if (!tokenizer)
      return tokenizer.takeError();
    if (Error error = expectArray(tokens, count, "tokens"))
      return error;
    Expected<std::string> bytes = (*tokenizer)->decode(ArrayRef(tokens, count));
    if (!bytes)
      return bytes.takeError();
    return copyOut(ArrayRef(bytes->data(), bytes->size()), text, capacity, "text", length);
  });
}

} // namespace kiln::api
