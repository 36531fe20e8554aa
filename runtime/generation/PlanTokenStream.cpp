#include "runtime/generation/PlanTokenStream.h"

#include "support/Diagnostic.h"

namespace kiln {

Error PlanTokenStream::start(ArrayRef<std::vector<int32_t>> prompts) {
  if (rows.empty())
    return startAll(prompts);
  for (const auto &[row, prompt] : llvm::enumerate(prompts))
    if (!prompt.empty())
      if (Error error = restart(row, prompt))
        return error;
  return Error::success();
}

/// The total number of tokens that the row can choose before the host must act: until it ends, or its context is full.
uint64_t PlanTokenStream::limitOf(const Row &row, const std::vector<int32_t> &prompt) const {
  uint64_t untilFull = static_cast<uint64_t>(executor.plan().model.context) + 1 - prompt.size();
  return std::min<uint64_t>(static_cast<uint64_t>(options.maxNewTokens), row.taken + untilFull);
}

RowStart PlanTokenStream::startOf(size_t index) const {
  const Row &row = rows[index];
  return {options.firstSequence + index, row.start + row.taken,
          static_cast<uint64_t>(options.maxNewTokens) - row.taken};
}

Error PlanTokenStream::startAll(ArrayRef<std::vector<int32_t>> prompts) {
  if (!sampler) {
    auto made = DeviceSampler::create(executor);
    if (!made)
      return made.takeError();
    sampler = std::move(*made);
  }
  rows.resize(prompts.size());
  std::vector<std::vector<int32_t>> placed;
  std::vector<RowStart> starts;
  for (const auto &[row, prompt] : llvm::enumerate(prompts)) {
    if (prompt.empty())
      continue;
    rows[row].place = static_cast<int64_t>(placed.size());
    rows[row].start = prompt.size();
    rows[row].limit = limitOf(rows[row], prompt);
    placed.push_back(prompt);
    starts.push_back(startOf(row));
  }
  if (placed.empty())
    return Error::success();
  bucket = decodeBucket(static_cast<int64_t>(placed.size()), executor.options().batch);
  if (Error error = sampler->configure(options))
    return error;
  if (Error error = sampler->prefill(0, placed, starts))
    return error;
  for (Row &row : rows)
    if (row.place >= 0)
      row.choices.push_back({row.place, sampler->lastChoice(row.place)});
  // Prepare all steps while the device evaluates the prompts.
  for (int64_t size = bucket; size >= 1; size = size > 1 ? decodeBucket(size / 2, size) : 0)
    if (Error error = sampler->prepareStep(size))
      return error;
  if (Error error = workAhead())
    return error;
  // Wait for the first tokens, so that their time counts as this call's.
  for (Row &row : rows)
    if (row.place >= 0)
      if (Expected<int32_t> first = sampler->token(row.choices.front().place, row.choices.front().number); !first)
        return first.takeError();
  return Error::success();
}

Error PlanTokenStream::restart(size_t index, const std::vector<int32_t> &prompt) {
  Row &row = rows[index];
  assert(row.place >= 0 && "a row that has ended starts again");
  row.choices.clear();
  row.limit = limitOf(row, prompt);
  if (Error error = sampler->prefill(row.place, {prompt}, {startOf(index)}))
    return error;
  row.choices.push_back({row.place, sampler->lastChoice(row.place)});
  return Error::success();
}

/// Moves the active rows together if they fit in a smaller bucket.
Error PlanTokenStream::shrink() {
  auto count = llvm::count_if(rows, [](const Row &row) { return row.place >= 0; });
  int64_t smaller = decodeBucket(count, executor.options().batch);
  if (smaller >= bucket)
    return Error::success();
  std::vector<bool> isTaken(smaller);
  for (const Row &row : rows)
    if (row.place >= 0 && row.place < smaller)
      isTaken[row.place] = true;
  int64_t free = 0;
  for (Row &row : rows) {
    if (row.place < smaller)
      continue;
    while (isTaken[free])
      ++free;
    if (Error error = sampler->moveRow(row.place, free))
      return error;
    row.place = free;
    isTaken[free] = true;
  }
  bucket = smaller;
  return Error::success();
}

Error PlanTokenStream::step() {
  if (Error error = sampler->step(bucket))
    return error;
  for (Row &row : rows)
    if (row.place >= 0)
      row.choices.push_back({row.place, sampler->lastChoice(row.place)});
  return Error::success();
}

/// Enqueues steps until every row has a token to take, then further steps, up to the number that the device may be
/// ahead, while a row can use them.
Error PlanTokenStream::workAhead() {
  auto steps = static_cast<size_t>(executor.device().stepsAhead());
  for (;;) {
    bool mustStep = false, mayStep = false;
    size_t most = 0;
    for (const Row &row : rows) {
      if (row.place < 0)
        continue;
      mustStep |= row.choices.empty();
      mayStep |= row.taken + row.choices.size() < row.limit;
      most = std::max(most, row.choices.size());
    }
    if (!mustStep && !(mayStep && most < steps))
      return Error::success();
    if (Error error = step())
      return error;
  }
}

Error PlanTokenStream::next(const BitVector &active, MutableArrayRef<int32_t> tokens) {
  for (const auto &[index, row] : llvm::enumerate(rows))
    if (!active.test(index))
      row.place = -1;
  if (Error error = shrink())
    return error;
  if (Error error = workAhead())
    return error;
  std::fill(tokens.begin(), tokens.end(), idleRow);
  for (unsigned index : active.set_bits()) {
    Row &row = rows[index];
    Choice choice = row.choices.front();
    row.choices.pop_front();
    Expected<int32_t> token = sampler->token(choice.place, choice.number);
    if (!token)
      return token.takeError();
    ++row.taken;
    tokens[index] = *token;
  }
  return Error::success();
}

} // namespace kiln
