#include "formats/GgufModel.h"

#include "formats/ModelConfigText.h"
#include "support/Diagnostic.h"
#include "support/model/WeightRecipe.h"

#include <limits>

namespace kiln {

//===----------------------------------------------------------------------===//
// Names
//===----------------------------------------------------------------------===//

namespace {
/// The module of a tensor: its name in a Hugging Face checkpoint and in GGUF, without `.weight` or `.bias`.
struct ModuleName {
  StringRef huggingFace, gguf;
};
} // namespace

static constexpr ModuleName modelModules[] = {
    {"wte", "token_embd"}, {"wpe", "position_embd"}, {"ln_f", "output_norm"}, {"lm_head", "output"}};
static constexpr ModuleName layerModules[] = {{"ln_1", "attn_norm"},          {"attn.c_attn", "attn_qkv"},
                                              {"attn.c_proj", "attn_output"}, {"ln_2", "ffn_norm"},
                                              {"mlp.c_fc", "ffn_up"},         {"mlp.c_proj", "ffn_down"}};

/// Splits `h.0.ln_1.weight` behind `prefix` `h.` into layer, module and `weight`. False for other names.
static bool splitName(StringRef name, StringRef prefix, StringRef &layer, StringRef &module, StringRef &part) {
  if (name.consume_front(prefix)) {
    std::tie(layer, name) = name.split('.');
    if (layer.empty() || !llvm::all_of(layer, llvm::isDigit))
      return false;
  }
  std::tie(module, part) = name.rsplit('.');
  return part == "weight" || part == "bias";
}

/// Translates a name between the two. `from` and `to` are members of ModuleName.
static std::optional<std::string> translate(StringRef name, StringRef prefix, StringRef ModuleName::*from,
                                            StringRef newPrefix, StringRef ModuleName::*to) {
  StringRef layer, module, part;
  if (!splitName(name, prefix, layer, module, part))
    return std::nullopt;
  ArrayRef<ModuleName> modules = layer.empty() ? ArrayRef(modelModules) : ArrayRef(layerModules);
  auto known = llvm::find_if(modules, [&](const ModuleName &each) { return each.*from == module; });
  if (known == modules.end())
    return std::nullopt;
  std::string start = layer.empty() ? "" : (newPrefix + layer + ".").str();
  return (start + (*known).*to + "." + part).str();
}

std::optional<std::string> ggufName(StringRef name) {
  return translate(name, "h.", &ModuleName::huggingFace, "blk.", &ModuleName::gguf);
}

std::optional<std::string> huggingFaceName(StringRef name) {
  return translate(name, "blk.", &ModuleName::gguf, "h.", &ModuleName::huggingFace);
}

uint32_t ggufTypeNumber(StoredType type) {
  switch (type) {
  case StoredType::F32:
    return 0;
  case StoredType::F16:
    return 1;
  case StoredType::BF16:
    return 30;
  case StoredType::Q8:
    return 8;
  }
  llvm_unreachable("every type is named above");
}

//===----------------------------------------------------------------------===//
// Reading
//===----------------------------------------------------------------------===//

static Error addTensor(const GgufTensor &tensor, ModelFile &model) {
  std::optional<std::string> name = huggingFaceName(tensor.name);
  if (!name)
    return makeFileError(model.path,
                         "tensor '" + tensor.name + "': expected tensors of a GPT-2, got one that it does not have");
  StoredTensor stored{
      .name = tensor.name, .type = tensor.type, .isTransposed = isStoredTransposed(*name), .bytes = tensor.bytes};
  // The file's first dimension varies fastest, that of a checkpoint slowest.
  stored.shape.assign(tensor.extents.rbegin(), tensor.extents.rend());
  if (stored.isTransposed && stored.shape.size() == 2)
    std::swap(stored.shape[0], stored.shape[1]);
  stored.isTransposed &= stored.shape.size() == 2;
  model.tensors.emplace(std::move(*name), std::move(stored));
  return Error::success();
}

/// Removes the head if it is a copy of the embedding: converters write one for models whose head is the embedding.
static bool removeTiedHead(ModelFile &model) {
  auto head = model.tensors.find("lm_head.weight"), embedding = model.tensors.find("wte.weight");
  if (head == model.tensors.end())
    return true;
  if (embedding == model.tensors.end() || head->second.type != embedding->second.type ||
      head->second.bytes != embedding->second.bytes)
    return false;
  model.tensors.erase(head);
  return true;
}

static Error readToken(const GgufFile &file, StringRef key, std::optional<int64_t> &token) {
  if (!file.has(key))
    return Error::success();
  Expected<int64_t> id = file.integer(key, 0, std::numeric_limits<int32_t>::max());
  if (!id)
    return id.takeError();
  token = *id;
  return Error::success();
}

static Error readSizes(const GgufFile &file, ModelDescription &description) {
  const std::pair<StringRef, int64_t &> sizes[] = {{"gpt2.context_length", description.positions},
                                                   {"gpt2.embedding_length", description.channels},
                                                   {"gpt2.feed_forward_length", description.inner},
                                                   {"gpt2.block_count", description.layers},
                                                   {"gpt2.attention.head_count", description.heads}};
  for (const auto &[key, size] : sizes)
    if (Error error = file.integer(key, 1, std::numeric_limits<int32_t>::max()).moveInto(size))
      return error;
  Expected<double> epsilon = file.number("gpt2.attention.layer_norm_epsilon");
  if (!epsilon)
    return epsilon.takeError();
  description.epsilon = static_cast<float>(*epsilon);
  if (Error error = readToken(file, "tokenizer.ggml.bos_token_id", description.beginToken))
    return error;
  return readToken(file, "tokenizer.ggml.eos_token_id", description.endToken);
}

std::string widenedKey(StoredType type) { return "kiln.widened_from_" + storedTypeName(type).lower(); }

static Error readOriginalTypes(const GgufFile &file, ModelFile &model) {
  for (StoredType type : {StoredType::F16, StoredType::BF16}) {
    if (!file.has(widenedKey(type)))
      continue;
    Expected<ArrayRef<StringRef>> names = file.texts(widenedKey(type));
    if (!names)
      return names.takeError();
    for (auto &[name, tensor] : model.tensors)
      if (tensor.type == StoredType::F32 && llvm::is_contained(*names, tensor.name))
        tensor.originalType = type;
  }
  return Error::success();
}

static Error expectGpt2(const GgufFile &file) {
  Expected<StringRef> architecture = file.text("general.architecture");
  if (!architecture)
    return architecture.takeError();
  if (*architecture == "gpt2")
    return Error::success();
  return file.fail("general.architecture", "expected 'gpt2', got '" + *architecture + "'");
}

Expected<std::shared_ptr<const ModelFile>> openGgufModel(MappedFile mapping) {
  Expected<std::shared_ptr<const GgufFile>> file = GgufFile::open(std::move(mapping));
  if (!file)
    return file.takeError();
  if (Error error = expectGpt2(**file))
    return error;
  auto model = std::make_shared<ModelFile>();
  model->path = (*file)->path();
  model->format = "GGUF, version " + std::to_string((*file)->version());
  model->mapping = *file;
  model->nameInFile = ggufName;
  ModelDescription description;
  if (Error error = readSizes(**file, description))
    return error;
  for (const GgufTensor &tensor : (*file)->tensors())
    if (Error error = addTensor(tensor, *model))
      return error;
  if (Error error = readOriginalTypes(**file, *model))
    return error;
  auto embedding = model->tensors.find("wte.weight");
  if (embedding == model->tensors.end() || embedding->second.shape.size() != 2)
    return makeFileError(model->path,
                         "tensor 'token_embd.weight': expected a matrix, got " +
                             (embedding == model->tensors.end() ? "none; a file of only a vocabulary is no model"
                                                                : shapeString(embedding->second.shape)));
  description.vocabulary = embedding->second.shape[0];
  description.isTied = removeTiedHead(*model);
  description.hasBiases =
      llvm::any_of(model->tensors, [](const auto &entry) { return StringRef(entry.first).ends_with(".bias"); });
  model->config = configText(description);
  return model;
}

} // namespace kiln
