#include "runtime/generation/sampling/PromptLogProbabilities.h"

namespace kiln {

/// Adds the log-probabilities of token `place` of each prompt that has so many.
static Error addPlace(size_t place, ArrayRef<EchoedPrompt> prompts, ArrayRef<std::vector<float>> logits,
                      MutableArrayRef<std::vector<ChosenLogProbabilities>> results) {
  for (const auto &[prompt, result] : llvm::zip(prompts, results)) {
    if (place >= prompt.tokens.size())
      continue;
    ArrayRef<float> row = logits[prompt.row];
    if (Expected<int32_t> best = argmax(row); !best)
      return best.takeError();
    result.push_back(logProbabilities(row, prompt.tokens[place], prompt.alternatives));
  }
  return Error::success();
}

Expected<std::vector<std::vector<ChosenLogProbabilities>>> promptLogProbabilities(LanguageModel &model, size_t rows,
                                                                                  ArrayRef<EchoedPrompt> prompts) {
  std::vector<std::vector<ChosenLogProbabilities>> results(prompts.size());
  std::vector<std::vector<float>> logits(rows);
  std::vector<std::vector<int32_t>> firsts(rows);
  size_t longest = 0;
  for (const EchoedPrompt &prompt : prompts) {
    longest = std::max(longest, prompt.tokens.size());
    if (prompt.tokens.size() > 1)
      firsts[prompt.row] = {prompt.tokens.front()};
  }
  if (longest < 2)
    return results;
  if (Error error = model.prefill(firsts, logits))
    return error;
  for (size_t place = 1; place < longest; ++place) {
    if (Error error = addPlace(place, prompts, logits, results))
      return error;
    std::vector<int32_t> fed(rows, idleRow);
    for (const EchoedPrompt &prompt : prompts)
      if (place + 1 < prompt.tokens.size())
        fed[prompt.row] = prompt.tokens[place];
    if (place + 1 < longest)
      if (Error error = model.decode(fed, logits))
        return error;
  }
  return results;
}

} // namespace kiln
