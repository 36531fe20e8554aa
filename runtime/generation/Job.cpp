#include "runtime/generation/Job.h"

#include "runtime/device/NvtxRange.h"
#include "runtime/generation/sampling/PromptLogProbabilities.h"

namespace kiln {

/// The milliseconds since `start`, which become a span about these rows.
double Job::endSpan(TraceLane lane, StringRef name, Clock::time_point start, const BitVector &about) const {
  Clock::time_point end = Clock::now();
  if (options.trace)
    options.trace->add(lane, name, start, end,
                       json::Object{{"first_sequence", static_cast<int64_t>(rows[about.find_first()]->index)},
                                    {"sequences", static_cast<int64_t>(about.count())}});
  return std::chrono::duration<double, std::milli>(end - start).count();
}

/// The row becomes free. Its result waits: handing it out may take time, and the next prompts come first.
void Job::finish(size_t row) {
  active.reset(row);
  if (const SpeculationCounts *counts = stream.speculation(row))
    rows[row]->result.speculation = *counts;
  finished.emplace_back(rows[row]->index, std::move(rows[row]->result));
}

/// Hands out the results that wait.
Error Job::deliver() {
  for (auto &[request, result] : std::exchange(finished, {}))
    if (Error error = requests.deliver(request, std::move(result)))
      return error;
  return Error::success();
}

/// Gives a free row the next request that needs the model, if there is one.
Error Job::fillRow(size_t row) {
  while (std::optional<size_t> request = requests.take()) {
    Sequence sequence(model, tokenizer, requests[*request], *request);
    if (!sequence.isDone() || requests[*request].options.echo) {
      rows[row].emplace(std::move(sequence));
      active.set(row);
      return Error::success();
    }
    if (Error error = requests.deliver(*request, std::move(sequence.result)))
      return error;
  }
  return Error::success();
}

/// Finds the log-probabilities of the prompts of these rows whose requests want them. Rows that need no more become
/// free.
Error Job::echoPrompts(const BitVector &filled) {
  std::vector<EchoedPrompt> prompts;
  BitVector echoed(rows.size());
  for (unsigned row : filled.set_bits())
    if (const SequenceOptions &wanted = requests[rows[row]->index].options; wanted.echo) {
      prompts.push_back({row, rows[row]->result.promptTokens, *wanted.logProbabilities});
      echoed.set(row);
    }
  if (prompts.empty())
    return Error::success();
  NvtxRange range("echo");
  Clock::time_point begin = Clock::now();
  auto found = promptLogProbabilities(model, rows.size(), prompts);
  if (!found)
    return found.takeError();
  endSpan(TraceLane::Prompts, "echo", begin, echoed);
  for (auto [prompt, probabilities] : llvm::zip(prompts, *found)) {
    Sequence &sequence = *rows[prompt.row];
    sequence.result.promptLogProbabilities = std::move(probabilities);
    if (!sequence.isDone())
      continue;
    active.reset(static_cast<unsigned>(prompt.row));
    if (Error error = requests.deliver(sequence.index, std::move(sequence.result)))
      return error;
  }
  return Error::success();
}

/// Starts requests in all free rows.
Error Job::startRows() {
  BitVector started(rows.size());
  for (size_t row = 0; row < rows.size() && !requests.isEmpty(); ++row) {
    if (active.test(row))
      continue;
    if (Error error = fillRow(row))
      return error;
    if (!active.test(row))
      break;
    started.set(row);
  }
  if (Error error = echoPrompts(started))
    return error;
  started &= active;
  if (started.none())
    return Error::success();
  std::vector<RowStart> starts;
  for (unsigned row : started.set_bits())
    starts.push_back(rows[row]->start(row));
  NvtxRange range("prompts");
  Clock::time_point begin = Clock::now();
  if (Error error = stream.start(starts))
    return error;
  double ms = endSpan(TraceLane::Prompts, "prompts", begin, started);
  for (unsigned row : started.set_bits())
    rows[row]->result.promptMs = ms;
  return Error::success();
}

/// Restarts the rows whose context must slide; the others keep their state.
Error Job::slideRows() {
  BitVector slid(rows.size());
  std::vector<RowStart> starts;
  for (unsigned row : active.set_bits())
    if (rows[row]->slide()) {
      slid.set(row);
      starts.push_back(rows[row]->start(row));
    }
  if (starts.empty())
    return Error::success();
  NvtxRange range("slide");
  Clock::time_point begin = Clock::now();
  Error error = stream.start(starts);
  endSpan(TraceLane::Prompts, "slide", begin, slid);
  return error;
}

Error Job::addToken(size_t row, int32_t token, double ms) {
  Sequence &sequence = *rows[row];
  sequence.result.tokenMs.push_back(ms);
  if (options.keepLogits)
    sequence.result.logits.push_back(stream.logits(row).vec());
  if (std::optional<int64_t> count = requests[sequence.index].options.logProbabilities)
    sequence.result.logProbabilities.push_back(logProbabilities(stream.logits(row), token, *count));
  Expected<std::string> text = sequence.add(token);
  if (!text)
    return text.takeError();
  requests.addToken(sequence.index, token, *text);
  if (sequence.isDone())
    finish(row);
  return Error::success();
}

Error Job::step(bool isFirst) {
  StringRef name = isFirst ? "first token" : "decode";
  NvtxRange range(name);
  Clock::time_point start = Clock::now();
  if (Error error = slideRows())
    return error;
  std::vector<int32_t> tokens(rows.size(), idleRow);
  if (Error error = stream.next(active, tokens))
    return error;
  double ms = endSpan(TraceLane::Decode, name, start, active);
  for (size_t row = 0; row < rows.size(); ++row)
    if (tokens[row] != idleRow)
      if (Error error = addToken(row, tokens[row], ms))
        return error;
  return Error::success();
}

/// Ends all sequences, those that no job has had, too.
Error Job::cancel() {
  for (unsigned row : active.set_bits()) {
    rows[row]->cancel();
    finish(row);
  }
  if (Error error = deliver())
    return error;
  while (std::optional<size_t> request = requests.take()) {
    Sequence sequence(model, tokenizer, requests[*request], *request);
    if (!sequence.isDone())
      sequence.cancel();
    if (Error error = requests.deliver(*request, std::move(sequence.result)))
      return error;
  }
  return Error::success();
}

Error Job::run() {
  for (bool isFirst = true;; isFirst = false) {
    if (requests.isStopped())
      return deliver();
    bool isNewRow = !requests.isEmpty() && !active.all();
    if (isNewRow && requests.isCancelled())
      return cancel();
    Error started = startRows(), delivered = deliver();
    if (started || delivered)
      return llvm::joinErrors(std::move(started), std::move(delivered));
    if (active.none() && !requests.isEmpty())
      continue; // those that were started needed no step
    if (active.none())
      return Error::success();
    if (requests.isCancelled())
      return cancel();
    if (Error error = step(isFirst))
      return llvm::joinErrors(std::move(error), deliver());
  }
}

} // namespace kiln
