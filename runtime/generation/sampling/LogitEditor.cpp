#include "runtime/generation/sampling/LogitEditor.h"

namespace kiln {

LogitEditor::LogitEditor(const LogitOptions &options, ArrayRef<int32_t> prompt, ArrayRef<int32_t> newTokens)
    : options(options), all(prompt.begin(), prompt.end()) {
  for (int32_t token : newTokens)
    add(token);
}

void LogitEditor::add(int32_t token) {
  all.insert(token);
  added.insert(token);
}

std::vector<float> LogitEditor::edit(ArrayRef<float> logits) const {
  std::vector<float> edited = logits.vec();
  const auto repetition = static_cast<float>(options.repetitionPenalty);
  const auto presence = static_cast<float>(options.presencePenalty);
  if (repetition != 1)
    for (int32_t token : all)
      edited[token] = edited[token] > 0 ? edited[token] / repetition : edited[token] * repetition;
  if (presence != 0)
    for (int32_t token : added)
      edited[token] -= presence;
  for (auto [token, bias] : options.bias)
    edited[token] += bias;
  return edited;
}

} // namespace kiln
