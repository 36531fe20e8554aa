#include "formats/ModelConfigText.h"

#include "support/Json.h"

namespace kiln {

std::string configText(const ModelDescription &model) {
  auto token = [](std::optional<int64_t> id) { return id ? json::Value(*id) : json::Value(nullptr); };
  const std::pair<StringRef, json::Value> lines[] = {{"architectures", json::Array{"GPT2LMHeadModel"}},
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
  std::string text = "{\n";
  for (const auto &[key, value] : lines)
    text += ("  \"" + key + "\": " + jsonText(value) + (key == "eos_token_id" ? "\n" : ",\n")).str();
  return text + "}\n";
}

} // namespace kiln
