#include "runtime/generation/PrefillCall.h"

namespace kiln {

int64_t prefillBucket(int64_t length, int64_t most) {
  constexpr int64_t smallest = 8, step = 128;
  auto power = static_cast<int64_t>(llvm::PowerOf2Ceil(static_cast<uint64_t>(std::max(length, smallest))));
  return std::min(most, power <= step ? power : static_cast<int64_t>(llvm::alignTo(length, step)));
}

int64_t decodeBucket(int64_t rows, int64_t most) {
  return std::min(most, static_cast<int64_t>(llvm::PowerOf2Ceil(static_cast<uint64_t>(rows))));
}

PrefillCall::PrefillCall(const Executor &executor, int64_t firstRow, ArrayRef<std::vector<int32_t>> prompts) {
  size_t longest = 0;
  for (const std::vector<int32_t> &prompt : prompts) {
    longest = std::max(longest, prompt.size());
    lengths.push_back(static_cast<int32_t>(prompt.size()));
  }
  int64_t padded = prefillBucket(static_cast<int64_t>(longest), executor.options().tokens);
  tokens.assign(prompts.size() * static_cast<size_t>(padded), 0);
  for (const auto &[i, prompt] : llvm::enumerate(prompts))
    llvm::copy(prompt, tokens.begin() + static_cast<ptrdiff_t>(i) * padded);
  const PrefillEntry &names = *executor.plan().entries.prefill;
  call = executor.call(Entry::Prefill, static_cast<int64_t>(prompts.size()), padded);
  call.arguments = {{names.tokens, tokens}, {names.lengths, lengths}};
  call.firstRow = firstRow;
}

} // namespace kiln
