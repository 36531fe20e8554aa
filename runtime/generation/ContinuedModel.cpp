#include "runtime/generation/ContinuedModel.h"

namespace kiln {

/// How many tokens of a prompt the row holds and need not be evaluated; 0: evaluate the prompt as a whole.
size_t ContinuedModel::heldOf(size_t row, ArrayRef<int32_t> prompt) const {
  if (prompt.empty())
    return 0;
  // The last token's logits are needed.
  const size_t most = std::min(rows[row].size(), prompt.size() - 1);
  size_t held = 0;
  while (held < most && rows[row][held] == prompt[held])
    ++held;
  return 2 * held >= prompt.size() ? held : 0;
}

Error ContinuedModel::prefill(ArrayRef<std::vector<int32_t>> prompts, MutableArrayRef<std::vector<float>> logits) {
  if (rows.size() != prompts.size())
    rows.assign(prompts.size(), {});
  std::vector<std::vector<int32_t>> whole(prompts.size());
  std::vector<int64_t> lengths(prompts.size(), -1);
  size_t longest = 0;
  for (size_t row = 0; row < prompts.size(); ++row) {
    if (size_t held = heldOf(row, prompts[row])) {
      lengths[row] = static_cast<int64_t>(held);
      longest = std::max(longest, prompts[row].size() - held);
    } else if (!prompts[row].empty()) {
      whole[row] = rows[row] = prompts[row];
    }
  }
  if (llvm::any_of(whole, [](const auto &prompt) { return !prompt.empty(); }))
    if (Error error = base.prefill(whole, logits))
      return error;
  truncate(lengths);
  for (size_t step = 0; step < longest; ++step) {
    std::vector<int32_t> fed(prompts.size(), idleRow);
    for (size_t row = 0; row < prompts.size(); ++row)
      if (lengths[row] >= 0 && rows[row].size() < prompts[row].size())
        fed[row] = prompts[row][rows[row].size()];
    if (Error error = decode(fed, logits))
      return error;
  }
  return Error::success();
}

Error ContinuedModel::decode(ArrayRef<int32_t> tokens, MutableArrayRef<std::vector<float>> logits) {
  if (Error error = base.decode(tokens, logits)) {
    rows.clear(); // unknown
    return error;
  }
  for (auto [row, token] : llvm::zip(rows, tokens))
    if (token != idleRow)
      row.push_back(token);
  return Error::success();
}

void ContinuedModel::truncate(ArrayRef<int64_t> lengths) {
  for (auto [row, length] : llvm::zip(rows, lengths))
    if (length >= 0)
      row.resize(static_cast<size_t>(length));
  base.truncate(lengths);
}

} // namespace kiln
