#include "tools/convert/Convert.h"

namespace kiln {

static std::string describeTensors(const ConvertedModel &model) {
  std::map<StoredType, int64_t> counts;
  int64_t parameters = 0, bytes = 0;
  for (const ConvertedModel::Tensor &tensor : model.tensors) {
    ++counts[tensor.stored];
    parameters += *elementCount(tensor.shape);
    bytes += storedBytes(tensor.stored, *elementCount(tensor.shape)).value_or(0);
  }
  std::vector<std::string> types;
  for (const auto &[type, count] : counts)
    types.push_back(formatv("{0} {1}", count, storedTypeName(type)).str());
  return formatv("{0} ({1}), {2} parameters, {3} bytes", model.tensors.size(), llvm::join(types, ", "), parameters,
                 bytes)
      .str();
}

static std::string describeVocabulary(const ConvertedModel &model) {
  if (!model.vocabulary)
    return "none";
  std::vector<std::string> specials;
  for (const auto &[text, id] : model.vocabulary->specials)
    specials.push_back(text);
  return formatv("{0} tokens, {1} merges, special: {2}", model.vocabulary->tokens.size(),
                 model.vocabulary->merges.size(), specials.empty() ? "none" : llvm::join(specials, " "))
      .str();
}

std::string describe(const ConvertedModel &model) {
  const ModelConfig &config = model.config;
  std::string text;
  raw_string_ostream os(text);
  os << "file        " << model.path << '\n';
  os << "format      " << (model.file ? model.file->format : "a directory of Hugging Face's form") << '\n';
  os << formatv("model       {0} layers, {1} heads of {2}, {3} channels, {4} positions\n", config.layers.value,
                config.heads.value, config.headSize(), config.channels.value, config.positions.value);
  os << formatv("logits      {0}, by {1}\n", config.vocabSize.value,
                config.tiedEmbeddings.value ? "the embedding of tokens" : "a head of its own");
  os << "tensors     " << describeTensors(model) << '\n';
  os << "vocabulary  " << describeVocabulary(model) << '\n';
  return text;
}

} // namespace kiln
