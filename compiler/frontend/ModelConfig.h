//===- ModelConfig.h - the configuration of a GPT-2 -----------------------===//
#pragma once

#include "ir/OpDef.h"
#include "support/text/Config.h"

namespace kiln {

/// A setting and the place that gave it, which becomes the location of the ops that depend on it.
template <class T> struct Setting {
  T value{};
  Location loc;
};

/// The op between the two products of the MLP: one that has OpDef::activationNames.
struct Activation {
  OpKind op = {};
  AttributeMap attributes = {};
};

/// The keys of a Hugging Face GPT-2 config.json that change the arithmetic; `graphs/*.toml` use the same names.
struct ModelConfig {
  std::string name; ///< an identifier, for the module

  Setting<int64_t> vocabSize;     ///< V
  Setting<int64_t> positions;     ///< n_positions, P
  Setting<int64_t> channels;      ///< n_embd, C
  Setting<int64_t> layers;        ///< n_layer, L
  Setting<int64_t> heads;         ///< n_head, NH
  Setting<int64_t> inner;         ///< n_inner; 4 * C when null or left out
  Setting<Activation> activation; ///< activation_function
  Setting<double> epsilon;        ///< layer_norm_epsilon
  Setting<bool> scaleByHeadSize;  ///< scale_attn_weights
  Setting<bool> scaleByLayer;     ///< scale_attn_by_inverse_layer_idx
  Setting<bool> tiedEmbeddings;   ///< tie_word_embeddings
  Setting<bool> hasBiases;        ///< bias: of products and layernorms; transformers has no such key, nanoGPT has
  std::vector<int64_t> eosTokens; ///< eos_token_id: a number, a list or nothing

  int64_t headSize() const { return channels.value / heads.value; }
};

/// Reads `MODEL`: a .toml file, a directory with a config.json of model_type gpt2, or a model in one file, whose places
/// are those of the config.json that describes it: `gpt2.gguf/config.json`.
/// Error, at the key's place: missing or unknown keys, wrong types, values out of range, n_embd not divisible by
/// n_head, a head size that is not a multiple of 8 up to 256, and whatever is not implemented, by name; errors of
/// openModelFile.
Expected<ModelConfig> readModelConfig(StringRef path, SourceManager &sources);

/// Reads a model from a parsed document. `isHuggingFace`: keys that training and other tools leave in config.json are
/// skipped, known ones silently; in a TOML every key must have a meaning.
Expected<ModelConfig> readModelConfig(const ConfigValue &root, StringRef name, bool isHuggingFace);

} // namespace kiln
