#include "runtime/generation/PlanTokenStream.h"

#include "support/Diagnostic.h"

namespace kiln {

Error PlanTokenStream::open() {
  if (!sampler) {
    auto made = DeviceSampler::create(executor);
    if (!made)
      return made.takeError();
    sampler = std::move(*made);
  }
  isOpen = true;
  return sampler->reset();
}

//===----------------------------------------------------------------------===//
// Starting rows
//===----------------------------------------------------------------------===//

/// Gives each started row a place. Returns the starts in the order of their places: prompts whose calls have the same
/// shape lie beside each other, so that few calls serve them.
std::vector<RowStart> PlanTokenStream::place(ArrayRef<RowStart> starts) {
  std::vector<bool> isTaken(rows.size());
  for (const Row &row : rows)
    if (row.place >= 0)
      isTaken[row.place] = true;
  std::vector<int64_t> places;
  size_t free = 0;
  for (const RowStart &start : starts) {
    int64_t place = rows[start.row].place;
    if (place < 0) {
      while (isTaken[free])
        ++free;
      place = static_cast<int64_t>(free++);
    }
    places.push_back(place);
  }
  llvm::sort(places);
  std::vector<RowStart> placed = starts.vec();
  llvm::stable_sort(placed, [](const RowStart &a, const RowStart &b) { return a.tokens.size() < b.tokens.size(); });
  auto context = static_cast<uint64_t>(executor.plan().model.context);
  for (auto [start, place] : llvm::zip(placed, places)) {
    // The host must act when the row has ended or its context is full.
    uint64_t untilFull = context + 1 - start.tokens.size();
    rows[start.row] = {place, 0, std::min(static_cast<uint64_t>(start.remaining), untilFull), {}};
  }
  return placed;
}

/// Evaluates prompts, those in neighbouring places by one call if its shape is the one that each has alone.
Error PlanTokenStream::prefill(ArrayRef<RowStart> starts) {
  auto bucketOf = [&](const RowStart &start) {
    return prefillBucket(static_cast<int64_t>(start.tokens.size()), executor.options().tokens);
  };
  auto placeOf = [&](const RowStart &start) { return rows[start.row].place; };
  while (!starts.empty()) {
    size_t count = 1;
    while (count < starts.size() && bucketOf(starts[count]) == bucketOf(starts[0]) &&
           placeOf(starts[count]) == placeOf(starts[0]) + static_cast<int64_t>(count))
      ++count;
    if (Error error = sampler->prefill(placeOf(starts[0]), starts.take_front(count)))
      return error;
    starts = starts.drop_front(count);
  }
  return Error::success();
}

/// Makes steps decode so many places at least.
Error PlanTokenStream::growTo(int64_t places) {
  int64_t wanted = decodeBucket(places, executor.options().batch);
  if (wanted <= bucket)
    return Error::success();
  bucket = wanted;
  // Prepare all steps while the device evaluates the prompts.
  for (int64_t size = bucket; size >= 1; size = size > 1 ? decodeBucket(size / 2, size) : 0)
    if (Error error = sampler->prepareStep(size))
      return error;
  return Error::success();
}

/// Waits for the first tokens of these rows.
Error PlanTokenStream::awaitFirst(ArrayRef<RowStart> starts) {
  for (const RowStart &start : starts) {
    const Choice &first = rows[start.row].choices.front();
    if (Expected<int32_t> token = sampler->token(first.place, first.number); !token)
      return token.takeError();
  }
  return Error::success();
}

Error PlanTokenStream::start(ArrayRef<RowStart> starts) {
  if (starts.empty())
    return Error::success();
  if (!isOpen)
    if (Error error = open())
      return error;
  std::vector<RowStart> placed = place(starts);
  if (Error error = prefill(placed))
    return error;
  int64_t places = 0;
  for (const RowStart &start : placed) {
    Row &row = rows[start.row];
    row.choices.push_back({row.place, sampler->lastChoice(row.place), steps});
    places = std::max(places, row.place + 1);
  }
  bool isFirst = bucket == 0;
  if (Error error = growTo(places))
    return error;
  if (!isFirst)
    return Error::success();
  // Nothing else is going on: wait, so that the time of the first tokens counts as this call's.
  if (Error error = workAhead())
    return error;
  return awaitFirst(placed);
}

//===----------------------------------------------------------------------===//
// Steps
//===----------------------------------------------------------------------===//

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
  ++steps;
  for (Row &row : rows)
    if (row.place >= 0)
      row.choices.push_back({row.place, sampler->lastChoice(row.place), steps});
  return Error::success();
}

/// Enqueues a step unless a row has a token to take, then further steps, up to the number that the device may be ahead,
/// while a row can use them.
Error PlanTokenStream::workAhead() {
  auto mostAhead = static_cast<size_t>(executor.device().stepsAhead());
  for (;;) {
    bool isUseful = false;
    size_t most = 0;
    for (const Row &row : rows) {
      if (row.place < 0)
        continue;
      isUseful |= row.taken + row.choices.size() < row.limit;
      most = std::max(most, row.choices.size());
    }
    if (most > 0 && !(isUseful && most < mostAhead))
      return Error::success();
    if (Error error = step())
      return error;
  }
}

Error PlanTokenStream::next(const BitVector &active, MutableArrayRef<int32_t> tokens) {
  for (const auto &[index, row] : llvm::enumerate(rows))
    if (!active.test(index))
      row = {};
  if (Error error = shrink())
    return error;
  if (Error error = workAhead())
    return error;
  std::fill(tokens.begin(), tokens.end(), idleRow);
  int64_t earliest = steps;
  for (unsigned index : active.set_bits())
    if (!rows[index].choices.empty())
      earliest = std::min(earliest, rows[index].choices.front().step);
  for (unsigned index : active.set_bits()) {
    Row &row = rows[index];
    if (row.choices.empty() || row.choices.front().step != earliest)
      continue;
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
