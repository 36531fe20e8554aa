#include "formats/GgufWriter.h"
#include "runtime/text/VocabularyText.h"
#include "support/Diagnostic.h"
#include "support/files/File.h"
#include "tools/convert/Convert.h"

namespace kiln {

// ggml's types of tokens, and of files.
static constexpr int32_t normalToken = 1, controlToken = 3, unusedToken = 5;
static constexpr uint32_t allF32 = 0, mostlyF16 = 1, mostlyBF16 = 32;

Error expectPlainGpt2(const ConvertedModel &model, StringRef format) {
  const ModelConfig &config = model.config;
  auto refuse = [&](Location loc, const Twine &message) {
    return makeError(loc, message + ", which " + format + " cannot describe");
  };
  const Activation &activation = config.activation.value;
  const Attribute *kind = findAttribute(activation.attributes, "approx");
  if (activation.op != OpKind::gelu || !kind || kind->asString() != "tanh")
    return refuse(config.activation.loc, "activation_function: expected \"gelu_new\", got another");
  if (!config.scaleByHeadSize.value)
    return refuse(config.scaleByHeadSize.loc, "scale_attn_weights: expected true, got false");
  if (config.scaleByLayer.value)
    return refuse(config.scaleByLayer.loc, "scale_attn_by_inverse_layer_idx: expected false, got true");
  return Error::success();
}

/// The type of a tensor in the file. ggml adds and scales vectors in f32 only, and reads positions so.
static DType typeInFile(const ConvertedModel::Tensor &tensor) {
  return tensor.shape.size() < 2 || tensor.name == "wpe.weight" ? DType::F32 : tensor.dtype;
}

static void addSizes(GgufWriter &writer, const ConvertedModel &model) {
  const ModelConfig &config = model.config;
  auto number = [](const Setting<int64_t> &setting) { return static_cast<uint32_t>(setting.value); };
  DType matrices = typeInFile(model.tensors.front());
  writer.add("general.architecture", StringRef("gpt2"));
  writer.add("general.name", StringRef(config.name));
  writer.add("general.file_type", matrices == DType::F16 ? mostlyF16 : matrices == DType::BF16 ? mostlyBF16 : allF32);
  writer.add("gpt2.block_count", number(config.layers));
  writer.add("gpt2.context_length", number(config.positions));
  writer.add("gpt2.embedding_length", number(config.channels));
  writer.add("gpt2.feed_forward_length", number(config.inner));
  writer.add("gpt2.attention.head_count", number(config.heads));
  writer.add("gpt2.attention.layer_norm_epsilon", static_cast<float>(config.epsilon.value));
}

static void addVocabulary(GgufWriter &writer, const ConvertedModel &model) {
  if (std::optional<int64_t> end = endOfText(model)) {
    writer.add("tokenizer.ggml.bos_token_id", static_cast<uint32_t>(*end));
    writer.add("tokenizer.ggml.eos_token_id", static_cast<uint32_t>(*end));
  }
  if (!model.vocabulary)
    return;
  const Vocabulary &vocabulary = *model.vocabulary;
  std::vector<std::string> tokens, merges;
  std::vector<int32_t> types;
  for (int32_t id = 0; id < static_cast<int32_t>(vocabulary.tokens.size()); ++id) {
    tokens.push_back(tokenSpelling(vocabulary, id));
    auto special = vocabulary.specials.find(vocabulary.tokens[id]);
    bool isSpecial = special != vocabulary.specials.end() && special->second == id;
    types.push_back(isSpecial ? controlToken : normalToken);
  }
  // ggml's programs want a token for each row of the embedding.
  for (auto id = static_cast<int64_t>(tokens.size()); id < model.config.vocabSize.value; ++id) {
    tokens.push_back(formatv("[PAD{0}]", id));
    types.push_back(unusedToken);
  }
  for (const Vocabulary::Merge &merge : vocabulary.merges)
    merges.push_back(mergeSpelling(vocabulary, merge));
  writer.add("tokenizer.ggml.model", StringRef("gpt2"));
  writer.add("tokenizer.ggml.pre", StringRef("gpt-2"));
  writer.add("tokenizer.ggml.tokens", ArrayRef<std::string>(tokens));
  writer.add("tokenizer.ggml.token_type", ArrayRef<int32_t>(types));
  writer.add("tokenizer.ggml.merges", ArrayRef<std::string>(merges));
  writer.add("tokenizer.ggml.add_bos_token", false);
}

/// Adds the tensors and the names of those whose type changes.
static void addTensors(GgufWriter &writer, const ConvertedModel &model) {
  std::map<StoredType, std::vector<std::string>> widened;
  for (const ConvertedModel::Tensor &tensor : model.tensors) {
    std::string name = *ggufName(tensor.name);
    SmallVector<int64_t, 2> shape = tensor.shape;
    if (isStoredTransposed(tensor.name))
      std::swap(shape[0], shape[1]);
    writer.addTensor(name, storedTypeOf(typeInFile(tensor)), shape);
    if (typeInFile(tensor) != tensor.dtype)
      widened[storedTypeOf(tensor.dtype)].push_back(name);
  }
  for (const auto &[type, names] : widened)
    writer.add(widenedKey(type), ArrayRef<std::string>(names));
}

Error writeGguf(const ConvertedModel &model, StringRef path) {
  if (Error error = expectPlainGpt2(model, "GGUF"))
    return error;
  GgufWriter writer;
  addSizes(writer, model);
  addVocabulary(writer, model);
  addTensors(writer, model);
  return writeFile(path, [&](raw_ostream &os) -> Error {
    os << writer.header();
    for (const ConvertedModel::Tensor &tensor : model.tensors) {
      DType dtype = typeInFile(tensor);
      if (Error error = writeTensor(os, model, tensor, dtype, isStoredTransposed(tensor.name)))
        return error;
      uint64_t bytes = *elementCount(tensor.shape) * dtypeSize(dtype);
      os.write_zeros(static_cast<unsigned>(llvm::alignTo(bytes, GgufWriter::alignment) - bytes));
    }
    return Error::success();
  });
}

} // namespace kiln
