//===- PromptLogProbabilities.h - how probable a prompt's own tokens are --===//
#pragma once

#include "runtime/generation/LanguageModel.h"
#include "runtime/generation/sampling/LogProbabilities.h"

namespace kiln {

/// A prompt whose tokens' log-probabilities are wanted.
struct EchoedPrompt {
  size_t row = 0; ///< of the model, which evaluates the prompt; it holds a part of it afterwards
  ArrayRef<int32_t> tokens;
  int64_t alternatives = 0; ///< how many most probable tokens in each one's place
};

/// The log-probabilities of each prompt's tokens but the first, which follows nothing, in order. The alternatives need
/// all logits of each place, so the model evaluates the prompts as it generates: token by token, side by side. `rows`
/// are the model's rows; those without a prompt stay as they are. Error: errors of the model; logits that are not
/// finite.
Expected<std::vector<std::vector<ChosenLogProbabilities>>> promptLogProbabilities(LanguageModel &model, size_t rows,
                                                                                  ArrayRef<EchoedPrompt> prompts);

} // namespace kiln
