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
  if (hostDraft) {
    Expected<DeviceDraft *> made = hostDraft->onDevice(*sampler);
    if (!made)
      return made.takeError();
    draft = *made;
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
    Row row;
    row.place = place;
    row.limit = std::min(static_cast<uint64_t>(start.remaining), untilFull);
    if (hostDraft) {
      Row &before = rows[start.row];
      row.text = start;
      row.pace = start.isSameText ? before.pace : DraftPace(draftLength);
      row.counts = start.isSameText ? before.counts : SpeculationCounts();
    }
    rows[start.row] = std::move(row);
  }
  return placed;
}

/// Calls the body with rows in neighbouring places that one call may start, since its shape is the one that each has
/// alone. Rows whose context slides are started one by one: whether others slide at the same time is a matter of speed,
/// and in 16 bits the kernels for several prompts may sum in another order.
Error PlanTokenStream::forNeighbours(ArrayRef<RowStart> starts,
                                     function_ref<Error(int64_t place, ArrayRef<RowStart>)> body) const {
  auto bucketOf = [&](const RowStart &start) {
    return prefillBucket(static_cast<int64_t>(start.tokens.size()), executor.options().tokens);
  };
  auto placeOf = [&](const RowStart &start) { return rows[start.row].place; };
  while (!starts.empty()) {
    size_t count = 1;
    while (count < starts.size() && !starts[0].isSameText && !starts[count].isSameText &&
           bucketOf(starts[count]) == bucketOf(starts[0]) &&
           placeOf(starts[count]) == placeOf(starts[0]) + static_cast<int64_t>(count))
      ++count;
    if (Error error = body(placeOf(starts[0]), starts.take_front(count)))
      return error;
    starts = starts.drop_front(count);
  }
  return Error::success();
}

Error PlanTokenStream::prefill(ArrayRef<RowStart> starts) {
  return forNeighbours(starts, [&](int64_t place, ArrayRef<RowStart> group) -> Error {
    if (Error error = sampler->prefill(place, group))
      return error;
    return draft ? draft->start(place, group) : Error::success();
  });
}

/// Makes steps decode so many places at least.
Error PlanTokenStream::growTo(int64_t places) {
  int64_t wanted = decodeBucket(places, executor.options().batch);
  if (wanted <= bucket)
    return Error::success();
  bucket = wanted;
  // Prepare all steps while the device evaluates the prompts.
  for (int64_t size = bucket; size >= 1; size = size > 1 ? decodeBucket(size / 2, size) : 0) {
    if (Error error = sampler->prepareStep(size))
      return error;
    if (draft)
      if (Error error = draft->preparePass(size, DraftPace(draftLength).count()))
        return error;
  }
  return Error::success();
}

/// Waits for the first tokens of these rows.
Error PlanTokenStream::awaitFirst(ArrayRef<RowStart> starts) {
  for (const RowStart &start : starts) {
    const Step &first = rows[start.row].steps.front();
    if (Expected<int32_t> token = sampler->token(first.place, first.choice); !token)
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
    row.steps.push_back({steps, row.place, sampler->lastChoice(row.place), 1, 0, /*isStart=*/true});
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
    if (draft)
      if (Error error = draft->moveRow(row.place, free))
        return error;
    row.place = free;
    isTaken[free] = true;
  }
  bucket = smaller;
  return Error::success();
}

/// Reads the tokens of the row's next step, for which it waits. A row that has ended on the device has none.
Error PlanTokenStream::read(Row &row) {
  Step step = row.steps.front();
  row.steps.pop_front();
  size_t before = row.ready.size();
  for (int64_t i = 0; i < step.count; ++i) {
    Expected<int32_t> token = sampler->token(step.place, step.choice + static_cast<uint32_t>(i));
    if (!token)
      return token.takeError();
    if (*token == idleRow)
      break;
    row.ready.push_back(*token);
  }
  auto count = static_cast<int64_t>(row.ready.size() - before);
  if (!draft || count == 0)
    return Error::success();
  row.text.tokens.insert(row.text.tokens.end(), row.ready.begin() + static_cast<ptrdiff_t>(before), row.ready.end());
  row.text.position += static_cast<uint64_t>(count);
  if (step.isStart)
    return Error::success();
  // Guesses behind the last token that the row may have do not count.
  int64_t left = static_cast<int64_t>(row.limit - row.taken - before);
  int64_t guesses = std::min(step.guesses, left - 1);
  row.pace.note(guesses, std::min(count - 1, guesses));
  row.counts.add(static_cast<size_t>(guesses), static_cast<size_t>(std::min(count - 1, guesses)));
  return Error::success();
}

//===----------------------------------------------------------------------===//
// Guesses
//===----------------------------------------------------------------------===//

/// How many guesses each row gets; 0: the next step decodes one token.
int64_t PlanTokenStream::guessesOfNextStep() const {
  if (!draft)
    return 0;
  int64_t most = 0;
  for (const Row &row : rows) {
    if (row.place < 0)
      continue;
    // A pass may choose as many tokens as it has, and the last token lies in it.
    auto held = static_cast<int64_t>(row.text.tokens.size()) - 1;
    for (const Step &step : row.steps)
      held += step.count;
    if (held + sampler->passTokens() > executor.plan().model.context)
      return 0;
    int64_t left = static_cast<int64_t>(row.limit) - static_cast<int64_t>(row.expected());
    most = std::max(most, std::min(row.pace.count(), left - 1));
  }
  return most;
}

/// Makes the draft hold the tokens that it has missed; waits for all that were enqueued.
Error PlanTokenStream::catchUp() {
  std::vector<RowStart> behind;
  for (Row &row : rows) {
    if (row.place < 0)
      continue;
    while (!row.steps.empty())
      if (Error error = read(row))
        return error;
    if (!row.isBehind)
      continue;
    row.isBehind = false;
    behind.push_back(row.text);
    behind.back().tokens.pop_back(); // the next pass feeds the last token
  }
  llvm::sort(behind, [&](const RowStart &a, const RowStart &b) { return rows[a.row].place < rows[b.row].place; });
  return forNeighbours(behind, [&](int64_t place, ArrayRef<RowStart> group) { return draft->start(place, group); });
}

//===----------------------------------------------------------------------===//
// Steps ahead of the host
//===----------------------------------------------------------------------===//

Error PlanTokenStream::step() {
  int64_t guesses = guessesOfNextStep();
  bool isBehind = llvm::any_of(rows, [](const Row &row) { return row.place >= 0 && row.isBehind; });
  if (guesses > 0 && isBehind) {
    if (Error error = catchUp())
      return error;
    guesses = guessesOfNextStep(); // more is known
  }
  if (Error error = guesses > 0 ? draft->pass(bucket, guesses) : sampler->step(bucket))
    return error;
  ++steps;
  int64_t count = guesses > 0 ? sampler->passTokens() : sampler->stepTokens(bucket);
  for (Row &row : rows) {
    if (row.place < 0)
      continue;
    auto first = sampler->lastChoice(row.place) - static_cast<uint32_t>(count) + 1;
    row.steps.push_back({steps, row.place, first, count, guesses});
    row.isBehind |= draft && guesses == 0 && draft->fallsBehind();
  }
  return Error::success();
}

/// Enqueues a step if a row has no token to take, then further steps, up to the number that the device may be ahead,
/// while a row can use them.
Error PlanTokenStream::workAhead() {
  // Of passes, whose number of guesses depends on those before, few.
  constexpr int64_t mostPasses = 2;
  // Of launches for several tokens, as many as keep the device busy.
  constexpr int64_t mostLaunches = 2;
  auto mostAhead = static_cast<size_t>(executor.device().stepsAhead());
  if (draft)
    mostAhead = std::min<size_t>(mostAhead, mostPasses);
  if (sampler->stepTokens(bucket) > 1)
    mostAhead = std::min<size_t>(mostAhead, mostLaunches);
  for (;;) {
    bool isNeeded = false, isUseful = false;
    size_t most = 0;
    for (const Row &row : rows) {
      if (row.place < 0)
        continue;
      isNeeded |= row.steps.empty() && row.ready.empty();
      isUseful |= row.expected() < row.limit;
      most = std::max(most, row.steps.size());
    }
    if (!isNeeded && !(isUseful && most < mostAhead))
      return Error::success();
    if (Error error = step())
      return error;
  }
}

Error PlanTokenStream::next(const BitVector &active, MutableArrayRef<int32_t> tokens) {
  for (const auto &[index, row] : llvm::enumerate(rows))
    if (!active.test(index) && row.place >= 0)
      row = {};
  if (Error error = shrink())
    return error;
  if (Error error = workAhead())
    return error;
  // Tokens that were read come first; else those of the earliest step.
  auto isReady = [&](unsigned index) { return !rows[index].ready.empty(); };
  if (llvm::none_of(active.set_bits(), isReady)) {
    int64_t earliest = steps;
    for (unsigned index : active.set_bits())
      earliest = std::min(earliest, rows[index].steps.front().number);
    for (unsigned index : active.set_bits())
      if (rows[index].steps.front().number == earliest) {
        if (Error error = read(rows[index]))
          return error;
        if (!isReady(index))
          return makeError("@sample chose no token for a row that has not ended");
      }
  }
  std::fill(tokens.begin(), tokens.end(), idleRow);
  for (unsigned index : active.set_bits()) {
    Row &row = rows[index];
    if (row.ready.empty())
      continue;
    tokens[index] = row.ready.front();
    row.ready.pop_front();
    ++row.taken;
  }
  return Error::success();
}

} // namespace kiln
