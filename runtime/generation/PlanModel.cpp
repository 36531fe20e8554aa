#include "runtime/generation/PlanModel.h"

#include "runtime/generation/PlanTokenStream.h"
#include "support/Diagnostic.h"

namespace kiln {

Error PlanModel::check(const Plan &plan, ArrayRef<Entry> entries) {
  for (Entry entry : entries)
    if (!plan.entries.has(entry))
      return makeError("the plan is of no language model: it has no entry '" + entryName(entry) + "'");
  return Error::success();
}

/// Downloads row `row` of the logits. Rows are contiguous; the plan's reader has checked this.
Error PlanModel::downloadLogits(Entry entry, int64_t row, std::vector<float> &logits) {
  logits.resize(vocabSize());
  return executor.download(executor.plan().entries.logitsOf(entry), row * vocabSize(), logits);
}

Error PlanModel::prefill(ArrayRef<std::vector<int32_t>> prompts, MutableArrayRef<std::vector<float>> logits) {
  lengths.resize(prompts.size());
  // A call works on consecutive rows; rows without a new prompt split the batch, and so do prompts of another class.
  auto classOf = [&](size_t row) {
    return classes.of(prefillBucket(static_cast<int64_t>(prompts[row].size()), executor.options().tokens));
  };
  for (size_t first = 0; first < prompts.size();) {
    if (prompts[first].empty()) {
      ++first;
      continue;
    }
    size_t end = first + 1;
    while (end < prompts.size() && !prompts[end].empty() && classOf(end) == classOf(first))
      ++end;
    if (Error error = prefillRows(first, prompts.slice(first, end - first), logits.slice(first, end - first)))
      return error;
    first = end;
  }
  return Error::success();
}

Error PlanModel::prefillRows(size_t firstRow, ArrayRef<std::vector<int32_t>> prompts,
                             MutableArrayRef<std::vector<float>> logits) {
  PrefillCall prefill(executor, static_cast<int64_t>(firstRow), prompts);
  if (Error error = executor.enqueue(prefill.call))
    return error;
  for (size_t i = 0; i < prompts.size(); ++i) {
    lengths[firstRow + i] = prefill.lengths[i];
    if (Error error = downloadLogits(Entry::Prefill, static_cast<int64_t>(i), logits[i]))
      return error;
  }
  return Error::success();
}

Error PlanModel::decode(ArrayRef<int32_t> tokens, MutableArrayRef<std::vector<float>> logits) {
  // An idle row decodes token 0 at its next position, which its next real token overwrites. A full row decodes it at
  // its last position: no token will follow, so the entry may be lost.
  std::vector<int32_t> ids(tokens), positions(lengths);
  for (auto [id, position] : llvm::zip(ids, positions)) {
    id = std::max(id, 0);
    position = std::min<int32_t>(position, static_cast<int32_t>(executor.plan().model.context) - 1);
  }
  const DecodeEntry &names = *executor.plan().entries.decode;
  const int32_t longest = *llvm::max_element(positions);
  Executor::Call call = executor.decodeCall(static_cast<int64_t>(tokens.size()), longest);
  call.arguments = {{names.tokens, ids}, {names.positions, positions}};
  if (Error error = executor.enqueue(call))
    return error;
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i] == idleRow)
      continue;
    ++lengths[i];
    if (Error error = downloadLogits(Entry::Decode, static_cast<int64_t>(i), logits[i]))
      return error;
  }
  return Error::success();
}

/// Whether one pass of @verify takes these tokens. It writes as many entries of the cache of every row, also of a row
/// that takes fewer tokens or none.
bool PlanModel::canVerify(ArrayRef<std::vector<int32_t>> tokens) const {
  auto most = static_cast<size_t>(verifyTokens());
  return llvm::any_of(tokens, [](const auto &ids) { return ids.size() > 1; }) &&
         llvm::all_of(tokens, [&](const auto &ids) { return ids.size() <= most; }) &&
         llvm::all_of(lengths, [&](int32_t length) {
           return length + static_cast<int64_t>(most) <= executor.plan().model.context;
         });
}

Error PlanModel::verify(ArrayRef<std::vector<int32_t>> tokens,
                        MutableArrayRef<std::vector<std::vector<float>>> logits) {
  if (!canVerify(tokens))
    return LanguageModel::verify(tokens, logits);
  int64_t most = verifyTokens();
  std::vector<int32_t> ids;
  for (const std::vector<int32_t> &own : tokens) {
    llvm::append_range(ids, own);
    ids.resize(llvm::alignTo(ids.size(), most) + (own.empty() ? most : 0), 0);
  }
  const VerifyEntry &names = *executor.plan().entries.verify;
  Executor::Call call = executor.call(Entry::Verify, static_cast<int64_t>(tokens.size()));
  call.arguments = {{names.tokens, ids}, {names.positions, lengths}};
  if (Error error = executor.enqueue(call))
    return error;
  for (size_t row = 0; row < tokens.size(); ++row) {
    logits[row].resize(tokens[row].size());
    lengths[row] += static_cast<int32_t>(tokens[row].size());
    for (size_t i = 0; i < tokens[row].size(); ++i)
      if (Error error =
              downloadLogits(Entry::Verify, static_cast<int64_t>(row) * most + static_cast<int64_t>(i), logits[row][i]))
        return error;
  }
  return Error::success();
}

void PlanModel::truncate(ArrayRef<int64_t> shorter) {
  for (auto [length, wanted] : llvm::zip(lengths, shorter))
    if (wanted >= 0)
      length = static_cast<int32_t>(wanted);
}

Expected<std::vector<std::vector<TokenScore>>> PlanModel::score(ArrayRef<ScoreWindow> windows) {
  std::map<int64_t, std::vector<size_t>> byClass;
  for (const auto &[i, window] : llvm::enumerate(windows))
    byClass[classes.of(static_cast<int64_t>(window.inputs.size()))].push_back(i);
  std::vector<std::vector<TokenScore>> all(windows.size());
  for (const auto &[number, members] : byClass) {
    std::vector<ScoreWindow> together;
    for (size_t member : members)
      together.push_back(windows[member]);
    auto scores = scoreTogether(together);
    if (!scores)
      return scores.takeError();
    for (auto [member, own] : llvm::zip(members, *scores))
      all[member] = std::move(own);
  }
  return all;
}

/// The scores of windows of one class of lengths.
Expected<std::vector<std::vector<TokenScore>>> PlanModel::scoreTogether(ArrayRef<ScoreWindow> windows) {
  size_t longest = 0;
  for (const ScoreWindow &window : windows)
    longest = std::max(longest, window.inputs.size());
  // Shorter windows end in tokens that no other sees, without targets.
  std::vector<int32_t> inputs(windows.size() * longest, 0), targets(windows.size() * longest, -1);
  for (auto [row, window] : llvm::enumerate(windows)) {
    llvm::copy(window.inputs, inputs.begin() + static_cast<ptrdiff_t>(row * longest));
    llvm::copy(window.targets, targets.begin() + static_cast<ptrdiff_t>(row * longest));
  }
  const ScoreEntry &names = *executor.plan().entries.score;
  Executor::Call call =
      executor.call(Entry::Score, static_cast<int64_t>(windows.size()), static_cast<int64_t>(longest));
  call.arguments = {{names.tokens, inputs}, {names.targets, targets}};
  if (Error error = executor.enqueue(call))
    return error;
  std::vector<float> logProbabilities(inputs.size()), best(inputs.size());
  for (auto [name, elements] : {std::pair(&names.logProbabilities, &logProbabilities), {&names.bestTokens, &best}})
    if (Error error = executor.download(*name, 0, *elements))
      return error;
  std::vector<std::vector<TokenScore>> all;
  for (auto [row, window] : llvm::enumerate(windows)) {
    std::vector<TokenScore> &scores = all.emplace_back();
    for (size_t i = window.firstScored; i < window.targets.size(); ++i) {
      size_t at = row * longest + i;
      scores.push_back({-logProbabilities[at], static_cast<int32_t>(best[at]) == window.targets[i]});
    }
  }
  return all;
}

bool PlanModel::choosesOnDevice(const StreamOptions &options) const {
  const Plan &plan = executor.plan();
  // A stream that chooses on the device always launches graphs.
  if (options.keepLogits || options.editsLogits || executor.isObserved() || plan.stepByStep || !plan.entries.sample)
    return false;
  return !options.draft || (plan.entries.accept && options.draft->isFor(executor.device()));
}

std::unique_ptr<TokenStream> PlanModel::openStream(const StreamOptions &options) {
  if (!choosesOnDevice(options))
    return LanguageModel::openStream(options);
  return std::make_unique<PlanTokenStream>(executor, sampler, options);
}

} // namespace kiln
