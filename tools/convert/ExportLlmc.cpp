#include "formats/LlmcModel.h"
#include "formats/LlmcTokenizer.h"
#include "support/Diagnostic.h"
#include "support/files/File.h"
#include "tools/convert/Convert.h"

namespace kiln {

namespace fs = llvm::sys::fs;

static constexpr StringRef formatName = "llm.c's format";
/// llm.c pads the vocabulary to a multiple of this.
static constexpr int64_t paddingUnit = 128;
/// The epsilon that llm.c's kernels have.
static constexpr float llmcEpsilon = 1e-5F;

/// Refuses what llm.c's format or its program has fixed.
static Error expectLlmc(const ConvertedModel &model) {
  if (Error error = expectPlainGpt2(model, formatName))
    return error;
  const ModelConfig &config = model.config;
  auto refuse = [&](Location loc, const Twine &message) {
    return makeError(loc, message + ", which " + formatName + " cannot describe");
  };
  if (!config.tiedEmbeddings.value)
    return refuse(config.tiedEmbeddings.loc, "tie_word_embeddings: expected true, got false");
  if (!config.hasBiases.value)
    return refuse(config.hasBiases.loc, "bias: expected true, got false");
  if (config.inner.value != 4 * config.channels.value)
    return refuse(config.inner.loc, "n_inner: expected 4 * n_embd (" + Twine(4 * config.channels.value) + "), got " +
                                        Twine(config.inner.value));
  if (static_cast<float>(config.epsilon.value) != llmcEpsilon)
    return refuse(config.epsilon.loc, "layer_norm_epsilon: expected 1e-05, got another");
  return Error::success();
}

static LlmcSizes sizesOf(const ModelConfig &config) {
  int64_t vocabulary = config.vocabSize.value;
  return {.positions = config.positions.value,
          .vocabulary = vocabulary,
          .layers = config.layers.value,
          .heads = config.heads.value,
          .channels = config.channels.value,
          .paddedVocabulary = static_cast<int64_t>(llvm::alignTo(vocabulary, paddingUnit))};
}

static void writeHeader(raw_ostream &os, const LlmcSizes &sizes, DType dtype) {
  std::array<int32_t, llmcHeaderBytes / sizeof(int32_t)> header{llmcMagic,
                                                                dtype == DType::F32 ? llmcVersionF32 : llmcVersionBF16,
                                                                static_cast<int32_t>(sizes.positions),
                                                                static_cast<int32_t>(sizes.vocabulary),
                                                                static_cast<int32_t>(sizes.layers),
                                                                static_cast<int32_t>(sizes.heads),
                                                                static_cast<int32_t>(sizes.channels),
                                                                static_cast<int32_t>(sizes.paddedVocabulary)};
  os.write(reinterpret_cast<const char *>(header.data()), sizeof header);
}

static Error writeParameters(raw_ostream &os, const ConvertedModel &model, const LlmcSizes &sizes, DType dtype) {
  std::map<StringRef, const ConvertedModel::Tensor *> byName;
  for (const ConvertedModel::Tensor &tensor : model.tensors)
    byName[tensor.name] = &tensor;
  for (const LlmcParameter &parameter : llmcParameters(sizes))
    for (int64_t layer = 0; layer < (parameter.isOfLayer ? sizes.layers : 1); ++layer) {
      std::string name =
          parameter.isOfLayer ? formatv("h.{0}.{1}", layer, parameter.source).str() : parameter.source.str();
      const ConvertedModel::Tensor &tensor = *byName[name];
      if (Error error = writeTensor(os, model, tensor, dtype, isStoredTransposed(name)))
        return error;
      int64_t missing = *elementCount(parameter.shape) - *elementCount(tensor.shape); // rows of padding
      os.write_zeros(static_cast<unsigned>(missing * dtypeSize(dtype)));
    }
  return Error::success();
}

/// The bytes of the tokenizer's file; empty if the model has no vocabulary.
static Expected<std::string> tokenizerBytes(const ConvertedModel &model) {
  if (!model.vocabulary)
    return "";
  std::optional<int64_t> end = endOfText(model);
  if (!end)
    return makeFileError(model.path,
                         "expected an end-of-text token in the vocabulary, which " + formatName + " needs, got none");
  return writeLlmcTokenizer({model.vocabulary->tokens, static_cast<int32_t>(*end)});
}

/// Error: there is another tokenizer's file, which belongs to other models of the folder.
static Error checkTokenizer(StringRef path, StringRef bytes) {
  if (bytes.empty() || !fs::exists(path))
    return Error::success();
  Expected<std::string> present = readFile(path);
  if (!present)
    return present.takeError();
  if (*present == bytes)
    return Error::success();
  return makeFileError(path, "cannot write: expected no file or the same tokenizer, got another one; choose a folder "
                             "of its own for the model");
}

Error writeLlmc(const ConvertedModel &model, StringRef path) {
  if (Error error = expectLlmc(model))
    return error;
  Expected<std::string> tokenizer = tokenizerBytes(model);
  if (!tokenizer)
    return tokenizer.takeError();
  std::string tokenizerPath = llmcTokenizerBeside(path);
  if (Error error = checkTokenizer(tokenizerPath, *tokenizer))
    return error;
  bool isHalf = llvm::all_of(model.tensors, [](const auto &tensor) { return tensor.dtype == DType::BF16; });
  DType dtype = isHalf ? DType::BF16 : DType::F32;
  LlmcSizes sizes = sizesOf(model.config);
  if (Error error = writeFile(path, [&](raw_ostream &os) {
        writeHeader(os, sizes, dtype);
        return writeParameters(os, model, sizes, dtype);
      }))
    return error;
  return tokenizer->empty() ? Error::success() : writeFile(tokenizerPath, *tokenizer);
}

} // namespace kiln
