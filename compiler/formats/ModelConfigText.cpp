#include "formats/ModelConfigText.h"

#include "support/text/Json.h"

namespace kiln {

std::string configText(const ModelDescription &model) {
  auto token = [](std::optional<int64_t> id) { return id ? json::Value(*id) : json::Value(nullptr); };
  std::vector<std::pair<StringRef, json::Value>> lines = {{"architectures", json::Array{"GPT2LMHeadModel"}},
                                                          {"model_type", "gpt2"},
                                                          {"vocab_size", model.vocabulary},
                                                          {"n_positions", model.positions},
                                                          {"n_embd", model.channels},
                                                          {"n_layer", model.layers},
                                                          {"n_head", model.heads},
                                                          {"n_inner", model.inner},
                                                          {"activation_function", "gelu_new"},
                                                          {"layer_norm_epsilon", jsonFloat(model.epsilon)},
                                                          {"tie_word_embeddings", model.isTied},
                                                          {"bos_token_id", token(model.beginToken)},
                                                          {"eos_token_id", token(model.endToken)}};
  if (!model.hasBiases) // not a key of transformers, whose models have biases of 0 instead
    lines.emplace_back("bias", false);
  std::string text;
  for (const auto &[key, value] : lines)
    text += ((text.empty() ? "{\n" : ",\n") + ("  \"" + key + "\": ") + jsonText(value)).str();
  return text + "\n}\n";
}

} // namespace kiln
