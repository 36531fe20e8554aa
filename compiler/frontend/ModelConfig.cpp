#include "frontend/ModelConfig.h"

#include "support/Diagnostic.h"

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

/// Keys that would change the forward pass if they said anything but this.
constexpr StringRef refusedWhenTrue[] = {"add_cross_attention", "is_encoder_decoder", "tie_encoder_decoder"};
constexpr StringRef refusedWhenSet[] = {"quantization_config", "pruned_heads", "cross_attention_hidden_size",
                                        "rope_scaling", "rope_parameters"};

class ConfigReader {
public:
  ConfigReader(const ConfigValue &root, bool isHuggingFace) : root(root), isHuggingFace(isHuggingFace) {}

  Expected<ModelConfig> read(StringRef name);

private:
  const ConfigValue *take(StringRef key);
  Error readInt(StringRef key, int64_t least, int64_t most, Setting<int64_t> &setting);
  Error readOptionalInt(StringRef key, int64_t least, int64_t most, Setting<int64_t> &setting);
  Error readBool(StringRef key, bool otherwise, Setting<bool> &setting);
  Error readEpsilon(Setting<double> &setting);
  Error readActivation(Setting<Activation> &setting);
  Error readEosTokens(int64_t vocabSize, std::vector<int64_t> &tokens);
  Error checkModelType();
  Error checkHeads(const ModelConfig &config);
  Error checkOtherKeys();

  const ConfigValue &root;
  bool isHuggingFace;
  std::set<StringRef> known;
};

const ConfigValue *ConfigReader::take(StringRef key) {
  known.insert(key);
  return root.find(key);
}

Error ConfigReader::readOptionalInt(StringRef key, int64_t least, int64_t most, Setting<int64_t> &setting) {
  const ConfigValue *value = take(key);
  if (!value || value->kind == ConfigValue::Kind::Null)
    return Error::success();
  return readInt(key, least, most, setting);
}

Error ConfigReader::readInt(StringRef key, int64_t least, int64_t most, Setting<int64_t> &setting) {
  const ConfigValue *value = take(key);
  if (!value)
    return makeError(root.loc, "missing key '" + key + "'");
  if (value->kind != ConfigValue::Kind::Int || value->integer < least || value->integer > most)
    return configError(key, *value, "an integer from " + Twine(least) + " to " + Twine(most));
  setting = {value->integer, value->loc};
  return Error::success();
}

Error ConfigReader::readBool(StringRef key, bool otherwise, Setting<bool> &setting) {
  setting = {otherwise, root.loc};
  const ConfigValue *value = take(key);
  if (!value)
    return Error::success();
  if (value->kind != ConfigValue::Kind::Bool)
    return configError(key, *value, "true or false");
  setting = {value->boolean, value->loc};
  return Error::success();
}

Error ConfigReader::readEpsilon(Setting<double> &setting) {
  setting = {1e-5, root.loc};
  const ConfigValue *value = take("layer_norm_epsilon");
  if (!value)
    return Error::success();
  // Kernels add it in f32, where less than the smallest normal number would be nothing.
  bool isNumber = value->kind == ConfigValue::Kind::Float || value->kind == ConfigValue::Kind::Int;
  if (!isNumber || !(value->real >= std::numeric_limits<float>::min() && value->real <= 1))
    return configError("layer_norm_epsilon", *value, "a number from 1.2e-38 to 1");
  setting = {value->real, value->loc};
  return Error::success();
}

Error ConfigReader::readActivation(Setting<Activation> &setting) {
  setting = {Activation::GeluTanh, root.loc};
  const ConfigValue *value = take("activation_function");
  if (!value)
    return Error::success();
  // transformers spells the tanh formula in three ways.
  static const std::map<StringRef, Activation> names = {{"gelu_new", Activation::GeluTanh},
                                                        {"gelu_pytorch_tanh", Activation::GeluTanh},
                                                        {"gelu_fast", Activation::GeluTanh},
                                                        {"gelu", Activation::GeluErf},
                                                        {"relu", Activation::Relu}};
  auto it = names.find(value->string);
  if (value->kind != ConfigValue::Kind::String || it == names.end())
    return configError("activation_function", *value, "\"gelu_new\", \"gelu\" or \"relu\"");
  setting = {it->second, value->loc};
  return Error::success();
}

Error ConfigReader::readEosTokens(int64_t vocabSize, std::vector<int64_t> &tokens) {
  const ConfigValue *value = take("eos_token_id");
  if (!value || value->kind == ConfigValue::Kind::Null)
    return Error::success();
  std::vector<ConfigValue> items = value->kind == ConfigValue::Kind::Array ? value->array : std::vector{*value};
  for (const ConfigValue &item : items) {
    if (item.kind != ConfigValue::Kind::Int || item.integer < 0)
      return configError("eos_token_id", item, "a token id");
    // GPT-2's default of 50256 stays in configs of smaller vocabularies; such an id is never produced.
    if (item.integer < vocabSize)
      tokens.push_back(item.integer);
  }
  return Error::success();
}

Error ConfigReader::checkModelType() {
  const ConfigValue *value = take("model_type");
  if (!value && isHuggingFace)
    return makeError(root.loc, "missing key 'model_type'");
  if (value && (value->kind != ConfigValue::Kind::String || value->string != "gpt2"))
    return configError("model_type", *value, "\"gpt2\"");
  return Error::success();
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

Error ConfigReader::checkOtherKeys() {
  for (const ConfigMember &member : root.table) {
    StringRef key = member.key;
    const ConfigValue &value = member.value;
    if (known.contains(key))
      continue;
    if (llvm::is_contained(refusedWhenTrue, key)) {
      if (value.kind != ConfigValue::Kind::Bool || value.boolean)
        return makeError(value.loc, key + ": expected false, got " + value.describe() + "; this is not implemented");
      continue;
    }
    if (llvm::is_contained(refusedWhenSet, key)) {
      bool isEmpty = value.kind == ConfigValue::Kind::Null ||
                     (value.kind == ConfigValue::Kind::Table && value.table.empty()) ||
                     (value.kind == ConfigValue::Kind::Array && value.array.empty());
      if (!isEmpty)
        return makeError(member.keyLoc, key + " is not implemented");
      continue;
    }
    // transformers keeps private bookkeeping under names with an underscore.
    if (isHuggingFace && (key.starts_with("_") || llvm::is_contained(ignoredKeys, key)))
      continue;
    return makeError(member.keyLoc, "unknown key '" + key + "'");
  }
  return Error::success();
}

Expected<ModelConfig> ConfigReader::read(StringRef name) {
  ModelConfig config;
  config.name = name.str();
  Setting<bool> scoresAreF32;
  constexpr int64_t most = 1 << 24;
  Error error = checkModelType();
  auto step = [&](auto &&action) {
    if (!error)
      error = action();
  };
  step([&] { return readInt("vocab_size", 1, most, config.vocabSize); });
  step([&] { return readInt("n_positions", 1, 1 << 20, config.positions); });
  step([&] { return readInt("n_embd", 8, 1 << 16, config.channels); });
  step([&] { return readInt("n_layer", 1, 1024, config.layers); });
  step([&] { return readInt("n_head", 1, 1 << 13, config.heads); });
  config.inner = {4 * config.channels.value, config.channels.loc};
  step([&] { return readOptionalInt("n_inner", 1, 1 << 18, config.inner); });
  step([&] { return readActivation(config.activation); });
  step([&] { return readEpsilon(config.epsilon); });
  step([&] { return readBool("scale_attn_weights", true, config.scaleByHeadSize); });
  step([&] { return readBool("scale_attn_by_inverse_layer_idx", false, config.scaleByLayer); });
  // Asks for the attention scores in f32, as fused attention has them in every precision.
  step([&] { return readBool("reorder_and_upcast_attn", false, scoresAreF32); });
  step([&] { return readBool("tie_word_embeddings", true, config.tiedEmbeddings); });
  step([&] { return readEosTokens(config.vocabSize.value, config.eosTokens); });
  step([&] { return checkHeads(config); });
  step([&] { return checkOtherKeys(); });
  if (error)
    return error;
  return config;
}

/// `gpt2-124m` as an identifier: gpt2_124m.
std::string toIdentifier(StringRef name) {
  std::string text;
  for (char c : name)
    text += llvm::isAlnum(c) ? c : '_';
  return text.empty() || llvm::isDigit(text[0]) ? "model_" + text : text;
}

} // namespace

Expected<ModelConfig> readModelConfig(const ConfigValue &root, StringRef name, bool isHuggingFace) {
  return ConfigReader(root, isHuggingFace).read(name);
}

Expected<ModelConfig> readModelConfig(StringRef path, SourceManager &sources) {
  bool isDirectory = llvm::sys::fs::is_directory(path);
  SmallString<128> file(path);
  if (isDirectory)
    llvm::sys::path::append(file, "config.json");
  else if (!path.ends_with(".toml"))
    return makeFileError(path, llvm::sys::fs::exists(path)
                                   ? "expected a .toml file or a directory with a config.json"
                                   : "no such model: expected a .toml file or a directory with a config.json");
  Expected<const SourceFile *> source = sources.open(file);
  if (!source)
    return source.takeError();
  Expected<ConfigValue> root = isDirectory ? parseJsonConfig(*source) : parseToml(*source);
  if (!root)
    return root.takeError();
  SmallString<128> absolute(path.rtrim('/'));
  llvm::sys::fs::make_absolute(absolute);
  llvm::sys::path::remove_dots(absolute, /*remove_dot_dot=*/true);
  StringRef name = isDirectory ? llvm::sys::path::filename(absolute) : llvm::sys::path::stem(absolute);
  return readModelConfig(*root, toIdentifier(name), isDirectory);
}

} // namespace kiln
