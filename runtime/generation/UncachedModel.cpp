#include "runtime/generation/UncachedModel.h"

namespace kiln {

Error UncachedModel::prefill(ArrayRef<std::vector<int32_t>> prompts, MutableArrayRef<std::vector<float>> logits) {
  rows.resize(prompts.size());
  for (auto [row, prompt] : llvm::zip(rows, prompts))
    if (!prompt.empty())
      row = prompt;
  return base.prefill(prompts, logits);
}

Error UncachedModel::decode(ArrayRef<int32_t> tokens, MutableArrayRef<std::vector<float>> logits) {
  std::vector<std::vector<int32_t>> prompts(rows.size()); // empty: the row takes no part in this step
  for (size_t i = 0; i < rows.size(); ++i)
    if (tokens[i] != idleRow) {
      rows[i].push_back(tokens[i]);
      prompts[i] = rows[i];
    }
  return base.prefill(prompts, logits);
}

void UncachedModel::truncate(ArrayRef<int64_t> lengths) {
  for (auto [row, length] : llvm::zip(rows, lengths))
    if (length >= 0)
      row.resize(static_cast<size_t>(length));
}

} // namespace kiln
