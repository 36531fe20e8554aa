#include "frontend/ModelConfig.h"

#include "formats/ModelFile.h"
#include "ops/OpTable.h"
#include "support/Diagnostic.h"
#include "support/text/ConfigFields.h"

#include <limits>

namespace kiln {

namespace {

/// Keys of config.json that do not change the forward pass: training, other heads, bookkeeping of transformers.
// clang-format off
constexpr StringRef ignoredKeys[] = {
    "architectures", "attn_pdrop", "auto_map", "bad_words_ids", "begin_suppress_tokens", "bos_token_id",
    "chunk_size_feed_forward", "decoder_start_token_id", "diversity_penalty", "do_sample", "dtype",
    "early_stopping", "embd_pdrop", "encoder_no_repeat_ngram_size", "exponential_decay_length_penalty",
    "finetuning_task", "forced_bos_token_id", "forced_eos_token_id", "gradient_checkpointing", "id2label",
    "initializer_range", "is_decoder", "label2id", "length_penalty", "max_length", "min_length", "n_ctx",
    "no_repeat_ngram_size", "num_beam_groups", "num_beams", "num_return_sequences", "output_attentions",
    "output_hidden_states", "output_past", "output_scores", "pad_token_id", "prefix", "problem_type",
    "remove_invalid_values", "repetition_penalty", "resid_pdrop", "return_dict",
    "return_dict_in_generate", "sep_token_id", "summary_activation", "summary_first_dropout",
    "summary_hidden_size", "summary_proj_to_labels", "summary_type", "summary_use_proj", "suppress_tokens",
    "task_specific_params", "temperature", "tf_legacy_loss", "tokenizer_class", "top_k", "top_p", "torch_dtype",
    "torchscript", "transformers_version", "typical_p", "use_bfloat16", "use_cache", "attn_implementation"};
// clang-format on

/// Keys that would change the forward pass with any other value.
constexpr StringRef refusedWhenTrue[] = {"add_cross_attention", "is_encoder_decoder", "tie_encoder_decoder"};
constexpr StringRef refusedWhenSet[] = {"quantization_config", "pruned_heads", "cross_attention_hidden_size",
                                        "rope_scaling", "rope_parameters"};

class ConfigReader {
public:
  ConfigReader(const ConfigValue &root, bool isHuggingFace) : fields(root, ""), isHuggingFace(isHuggingFace) {}

  Expected<ModelConfig> read(StringRef name);

private:
  Error readInt(StringRef key, int64_t least, int64_t most, Setting<int64_t> &setting);
  Error readFlag(StringRef key, bool otherwise, Setting<bool> &setting);
  Error readInner(Setting<int64_t> &setting, const Setting<int64_t> &channels);
  Error readEpsilon(Setting<double> &setting);
  Error readActivation(Setting<Activation> &setting);
  Error readEosTokens(int64_t vocabSize, std::vector<int64_t> &tokens);
  Error checkModelType();
  Error checkHeads(const ModelConfig &config);
  Error checkOtherKey(const ConfigMember &member);
  Error checkOtherKeys();

  Fields fields;
  bool isHuggingFace;
};

Error ConfigReader::readInt(StringRef key, int64_t least, int64_t most, Setting<int64_t> &setting) {
  setting.loc = fields.place(key);
  return fields.integer(key, setting.value, least, most);
}

Error ConfigReader::readFlag(StringRef key, bool otherwise, Setting<bool> &setting) {
  setting = {otherwise, fields.place(key)};
  return fields.flag(key, setting.value);
}

/// Reads n_inner; the default is four times the channels.
Error ConfigReader::readInner(Setting<int64_t> &setting, const Setting<int64_t> &channels) {
  const ConfigValue *value = fields.find("n_inner");
  bool isThere = value && value->kind != ConfigValue::Kind::Null;
  setting = {4 * channels.value, isThere ? value->loc : channels.loc};
  return fields.optionalInteger("n_inner", setting.value, 1, 1 << 18);
}

Error ConfigReader::readEpsilon(Setting<double> &setting) {
  setting = {1e-5, fields.place("layer_norm_epsilon")};
  // Kernels add epsilon in f32, where a number below the smallest normal one counts as 0.
  if (!fields.find("layer_norm_epsilon"))
    return Error::success();
  return fields.number("layer_norm_epsilon", setting.value, std::numeric_limits<float>::min(), 1);
}

/// The activation of this name in configurations; none if there is no such name.
std::optional<Activation> findActivation(StringRef name) {
  for (const OpDef *op : opTable().all())
    for (const ActivationName &known : op->activationNames)
      if (known.name == name)
        return Activation{op->kind, known.attributes};
  return std::nullopt;
}

/// The activations' names for messages: `"gelu_new", "gelu" or "relu"`.
std::string activationNames() {
  std::vector<std::string> names;
  for (const OpDef *op : opTable().all())
    for (const ActivationName &known : op->activationNames)
      names.push_back(("\"" + known.name + "\"").str());
  std::string last = names.back();
  names.pop_back();
  return llvm::join(names, ", ") + " or " + last;
}

Error ConfigReader::readActivation(Setting<Activation> &setting) {
  StringRef key = "activation_function";
  const ConfigValue *value = fields.find(key);
  std::optional<Activation> found = findActivation(value ? StringRef(value->string) : "gelu_new");
  if (value && (value->kind != ConfigValue::Kind::String || !found))
    return configError(key, *value, activationNames());
  setting = {std::move(*found), fields.place(key)};
  return Error::success();
}

Error ConfigReader::readEosTokens(int64_t vocabSize, std::vector<int64_t> &tokens) {
  const ConfigValue *value = fields.find("eos_token_id");
  if (!value || value->kind == ConfigValue::Kind::Null)
    return Error::success();
  std::vector<ConfigValue> items = value->kind == ConfigValue::Kind::Array ? value->array : std::vector{*value};
  for (const ConfigValue &item : items) {
    if (item.kind != ConfigValue::Kind::Int || item.integer < 0)
      return configError("eos_token_id", item, "a token id");
    // GPT-2's default of 50256 is often left in configs of smaller vocabularies; such an id is never produced.
    if (item.integer < vocabSize)
      tokens.push_back(item.integer);
  }
  return Error::success();
}

Error ConfigReader::checkModelType() {
  const ConfigValue *value = fields.find("model_type");
  if (!value && !isHuggingFace)
    return Error::success();
  std::string type;
  if (Error error = fields.text("model_type", type))
    return error;
  return type == "gpt2" ? Error::success() : configError("model_type", *value, "\"gpt2\"");
}

Error ConfigReader::checkHeads(const ModelConfig &config) {
  int64_t channels = config.channels.value, heads = config.heads.value;
  if (channels % heads != 0)
    return makeError(config.channels.loc,
                     "n_embd: expected a multiple of n_head (" + Twine(heads) + "), got " + Twine(channels));
  int64_t size = channels / heads;
  if (size % 8 != 0 || size > 256)
    return makeError(config.heads.loc,
                     "n_head: expected a head size (n_embd / n_head) that is a multiple of 8 up to 256, got " +
                         Twine(channels) + " / " + Twine(heads) + " = " + Twine(size));
  return Error::success();
}

/// Checks a key that no setting has read.
Error ConfigReader::checkOtherKey(const ConfigMember &member) {
  StringRef key = member.key;
  const ConfigValue &value = member.value;
  if (llvm::is_contained(refusedWhenTrue, key)) {
    if (value.kind == ConfigValue::Kind::Bool && !value.boolean)
      return Error::success();
    return makeError(value.loc, key + ": expected false, got " + value.describe() + "; this is not implemented");
  }
  if (llvm::is_contained(refusedWhenSet, key)) {
    bool isEmpty = value.kind == ConfigValue::Kind::Null ||
                   (value.kind == ConfigValue::Kind::Table && value.table.empty()) ||
                   (value.kind == ConfigValue::Kind::Array && value.array.empty());
    return isEmpty ? Error::success() : makeError(member.keyLoc, key + " is not implemented");
  }
  // transformers stores private data under names with an underscore.
  bool isIgnored = isHuggingFace && (key.starts_with("_") || llvm::is_contained(ignoredKeys, key));
  return isIgnored ? Error::success() : fields.unknown(member);
}

Error ConfigReader::checkOtherKeys() {
  for (const ConfigMember *member : fields.unread())
    if (Error error = checkOtherKey(*member))
      return error;
  return Error::success();
}

Expected<ModelConfig> ConfigReader::read(StringRef name) {
  ModelConfig config;
  config.name = name.str();
  Setting<bool> scoresAreF32;
  constexpr int64_t most = 1 << 24;
  Error error =
      chain([&] { return checkModelType(); }, [&] { return readInt("vocab_size", 1, most, config.vocabSize); },
            [&] { return readInt("n_positions", 1, 1 << 20, config.positions); },
            [&] { return readInt("n_embd", 8, 1 << 16, config.channels); },
            [&] { return readInt("n_layer", 1, 1024, config.layers); },
            [&] { return readInt("n_head", 1, 1 << 13, config.heads); },
            [&] { return readInner(config.inner, config.channels); }, [&] { return readActivation(config.activation); },
            [&] { return readEpsilon(config.epsilon); },
            [&] { return readFlag("scale_attn_weights", true, config.scaleByHeadSize); },
            [&] { return readFlag("scale_attn_by_inverse_layer_idx", false, config.scaleByLayer); },
            // Requests attention scores in f32, which fused attention has in every precision.
            [&] { return readFlag("reorder_and_upcast_attn", false, scoresAreF32); },
            [&] { return readFlag("tie_word_embeddings", true, config.tiedEmbeddings); },
            [&] { return readFlag("bias", true, config.hasBiases); },
            [&] { return readEosTokens(config.vocabSize.value, config.eosTokens); }, [&] { return checkHeads(config); },
            [&] { return checkOtherKeys(); });
  if (error)
    return error;
  return config;
}

/// The name as an identifier: `gpt2-124m` becomes gpt2_124m.
std::string toIdentifier(StringRef name) {
  std::string text;
  for (char c : name)
    text += llvm::isAlnum(c) ? c : '_';
  return text.empty() || llvm::isDigit(text[0]) ? "model_" + text : text;
}

std::string configIn(StringRef directory) {
  SmallString<128> file(directory);
  llvm::sys::path::append(file, "config.json");
  return file.str().str();
}

} // namespace

Expected<ModelConfig> readModelConfig(const ConfigValue &root, StringRef name, bool isHuggingFace) {
  return ConfigReader(root, isHuggingFace).read(name);
}

/// Reads MODEL's document: the file, the config.json of the directory, or the one that describes a model in one file.
static Expected<const SourceFile *> openConfig(StringRef path, SourceManager &sources) {
  StringRef expected = "expected a .toml file, a directory with a config.json, a GGUF file or a model of llm.c";
  if (!llvm::sys::fs::exists(path) && !path.ends_with(".toml"))
    return makeFileError(path, "no such model: " + expected);
  if (!isModelFile(path))
    return sources.open(llvm::sys::fs::is_directory(path) ? configIn(path) : path.str());
  Expected<std::shared_ptr<const ModelFile>> model = openModelFile(path);
  if (!model)
    return model.takeError();
  return sources.add(configIn(path), (*model)->config);
}

Expected<ModelConfig> readModelConfig(StringRef path, SourceManager &sources) {
  Expected<const SourceFile *> source = openConfig(path, sources);
  if (!source)
    return source.takeError();
  bool isToml = path.ends_with(".toml") && !llvm::sys::fs::is_directory(path);
  Expected<ConfigValue> root = isToml ? parseToml(*source) : parseJsonConfig(*source);
  if (!root)
    return root.takeError();
  SmallString<128> absolute(path.rtrim('/'));
  llvm::sys::fs::make_absolute(absolute);
  llvm::sys::path::remove_dots(absolute, /*remove_dot_dot=*/true);
  StringRef name =
      llvm::sys::fs::is_directory(path) ? llvm::sys::path::filename(absolute) : llvm::sys::path::stem(absolute);
  return readModelConfig(*root, toIdentifier(name), !isToml);
}

} // namespace kiln
