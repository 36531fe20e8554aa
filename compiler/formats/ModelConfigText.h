//===- ModelConfigText.h - the config.json of a model in one file ------------===//
#pragma once

#include "support/ADT.h"

namespace kiln {

/// What these formats say of a GPT-2. Their models use the tanh GELU and scale scores by the size of a head alone.
struct ModelDescription {
  int64_t vocabulary = 0, positions = 0, channels = 0, inner = 0, layers = 0, heads = 0;
  float epsilon = 1e-5F;
  bool isTied = true, hasBiases = true;
  std::optional<int64_t> beginToken = {}, endToken = {};
};

/// The text of a config.json as transformers reads it, a key on each line.
std::string configText(const ModelDescription &model);

} // namespace kiln
