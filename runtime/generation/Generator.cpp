#include "runtime/generation/Generator.h"

#include "runtime/device/NvtxRange.h"
#include "runtime/generation/Sequence.h"
#include "runtime/generation/sampling/PromptLogProbabilities.h"
#include "support/Diagnostic.h"

namespace kiln {

std::optional<OverflowPolicy> parseOverflowPolicy(StringRef name) {
  if (name == "error")
    return OverflowPolicy::Error;
  if (name == "stop")
    return OverflowPolicy::Stop;
  if (name == "slide")
    return OverflowPolicy::Slide;
  return std::nullopt;
}

StringRef finishReasonName(FinishReason reason) {
  static constexpr StringRef names[] = {"length", "stop", "eos", "cancelled"};
  return names[static_cast<int>(reason)];
}

//===----------------------------------------------------------------------===//
// Checks
//===----------------------------------------------------------------------===//

static Error checkOptions(const LanguageModel &model, const Tokenizer *tokenizer, const SequenceOptions &options) {
  if (Error error = checkSamplingParams(options.sampling))
    return error;
  if (options.maxNewTokens < 0)
    return makeError("--max-new-tokens: expected 0 or more, got " + Twine(options.maxNewTokens));
  if (options.slideKeep < 0 || options.slideKeep > model.contextLength())
    return makeError("--slide-keep: expected 0 (half the context) or up to the context of " +
                     Twine(model.contextLength()) + " tokens, got " + Twine(options.slideKeep));
  if (!options.logits.bias.empty() &&
      (options.logits.bias.begin()->first < 0 || options.logits.bias.rbegin()->first >= model.vocabSize()))
    return makeError("--logit-bias: expected token ids in 0.." + Twine(model.vocabSize() - 1) + ", got " +
                     Twine(options.logits.bias.begin()->first < 0 ? options.logits.bias.begin()->first
                                                                  : options.logits.bias.rbegin()->first));
  if (options.echo && !options.logProbabilities)
    return makeError("--echo: expected --logprobs, of the prompt's tokens, got none");
  if (llvm::is_contained(options.stopStrings, ""))
    return makeError("--stop: expected some text, got none");
  if (!options.stopStrings.empty() && !tokenizer)
    return makeError("--stop: expected a tokenizer to compare text with, got none");
  return Error::success();
}

std::string promptProblem(ArrayRef<int32_t> prompt, const SequenceOptions &options, int64_t vocabulary,
                          int64_t context) {
  auto length = static_cast<int64_t>(prompt.size());
  if (prompt.empty())
    return "expected at least one token, got none";
  for (int32_t id : prompt)
    if (id < 0 || id >= vocabulary)
      return ("expected token ids in 0.." + Twine(vocabulary - 1) + ", got " + Twine(id)).str();
  if (length > context)
    return ("expected at most the context of " + Twine(context) + " tokens, got " + Twine(length) +
            "; shorten the prompt")
        .str();
  if (options.overflow == OverflowPolicy::Error && options.maxNewTokens > context - length)
    return ("expected prompt and new tokens to fit in the context of " + Twine(context) + ", got " + Twine(length) +
            " and " + Twine(options.maxNewTokens) + "; lower --max-new-tokens to " + Twine(context - length) +
            ", shorten the prompt, or choose --overflow stop or slide")
        .str();
  return "";
}

static Error checkRequests(const LanguageModel &model, const Tokenizer *tokenizer,
                           ArrayRef<GenerationRequest> requests) {
  for (const GenerationRequest &request : requests)
    if (Error error = checkOptions(model, tokenizer, request.options))
      return error;
  for (const auto &[i, request] : llvm::enumerate(requests))
    if (std::string wrong = promptProblem(request.prompt, request.options, model.vocabSize(), model.contextLength());
        !wrong.empty())
      return makeError("prompt " + Twine(i + 1) + ": " + wrong);
  return Error::success();
}

//===----------------------------------------------------------------------===//
// Jobs
//===----------------------------------------------------------------------===//

namespace {
/// Runs sequences side by side until the last one ends.
class Job {
public:
  using OnFinished = function_ref<Error(size_t request, Generation result)>;

  Job(LanguageModel &model, const Tokenizer *tokenizer, ArrayRef<GenerationRequest> requests, const JobOptions &options,
      TokenStream &stream, size_t rows, OnFinished onFinished)
      : model(model), tokenizer(tokenizer), requests(requests), options(options), stream(stream), rows(rows),
        active(rows), onFinished(onFinished) {}

  Error run();

private:
  using Clock = Trace::Clock;

  /// The milliseconds since `start`, which become a span about these rows.
  double endSpan(TraceLane lane, StringRef name, Clock::time_point start, const BitVector &about) const {
    Clock::time_point end = Clock::now();
    if (options.trace)
      options.trace->add(lane, name, start, end,
                         json::Object{{"first_sequence", static_cast<int64_t>(rows[about.find_first()]->index)},
                                      {"sequences", static_cast<int64_t>(about.count())}});
    return std::chrono::duration<double, std::milli>(end - start).count();
  }

  Error fillRow(size_t row);
  Error echoPrompts(const BitVector &filled);
  Error startRows();
  Error slideRows();
  Error step(bool isFirst);
  Error addToken(size_t row, int32_t token, double ms);
  void finish(size_t row);
  Error deliver();
  Error cancel();

  LanguageModel &model;
  const Tokenizer *tokenizer;
  ArrayRef<GenerationRequest> requests;
  const JobOptions &options;
  TokenStream &stream;
  std::vector<std::optional<Sequence>> rows;
  BitVector active;                                    ///< the rows that have a sequence
  size_t next = 0;                                     ///< the first request that no row has had
  std::vector<std::pair<size_t, Generation>> finished; ///< not handed out yet, by request
  OnFinished onFinished;
};
} // namespace

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
    if (Error error = onFinished(request, std::move(result)))
      return error;
  return Error::success();
}

/// Gives a free row the next request that needs the model, if there is one.
Error Job::fillRow(size_t row) {
  for (; next < requests.size(); ++next) {
    Sequence sequence(model, tokenizer, requests[next], next);
    if (!sequence.isDone() || requests[next].options.echo) {
      rows[row].emplace(std::move(sequence));
      active.set(row);
      ++next;
      return Error::success();
    }
    if (Error error = onFinished(next, std::move(sequence.result)))
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
    if (Error error = onFinished(sequence.index, std::move(sequence.result)))
      return error;
  }
  return Error::success();
}

/// Starts requests in all free rows.
Error Job::startRows() {
  BitVector started(rows.size());
  for (size_t row = 0; row < rows.size() && next < requests.size(); ++row) {
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
  if (options.onToken)
    options.onToken(sequence.index, token, *text);
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

/// Ends all sequences, those that no row has had, too.
Error Job::cancel() {
  for (unsigned row : active.set_bits()) {
    rows[row]->cancel();
    finish(row);
  }
  if (Error error = deliver())
    return error;
  for (; next < requests.size(); ++next) {
    Sequence sequence(model, tokenizer, requests[next], next);
    if (!sequence.isDone())
      sequence.cancel();
    if (Error error = onFinished(next, std::move(sequence.result)))
      return error;
  }
  return Error::success();
}

Error Job::run() {
  auto isCancelled = [&] { return options.isCancelled && options.isCancelled(); };
  for (bool isFirst = true;; isFirst = false) {
    bool isNewRow = next < requests.size() && !active.all();
    if (isNewRow && isCancelled())
      return cancel();
    Error started = startRows(), delivered = deliver();
    if (started || delivered)
      return llvm::joinErrors(std::move(started), std::move(delivered));
    if (active.none() && next < requests.size())
      continue; // those that were started needed no step
    if (active.none())
      return Error::success();
    if (isCancelled())
      return cancel();
    if (Error error = step(isFirst))
      return llvm::joinErrors(std::move(error), deliver());
  }
}

Error generateEach(LanguageModel &model, const Tokenizer *tokenizer, ArrayRef<GenerationRequest> requests, size_t rows,
                   const JobOptions &options, function_ref<Error(size_t request, Generation result)> onFinished) {
  if (Error error = checkRequests(model, tokenizer, requests))
    return error;
  rows = std::min(rows, requests.size());
  // A device that chooses tokens keeps the logits to itself.
  bool needsLogits = options.keepLogits || llvm::any_of(requests, [](const GenerationRequest &request) {
                       return request.options.logProbabilities.has_value();
                     });
  bool editsLogits =
      llvm::any_of(requests, [](const GenerationRequest &request) { return !request.options.logits.isOff(); });
  std::unique_ptr<TokenStream> stream =
      model.openStream({rows, needsLogits, editsLogits, options.draft, options.draftLength});
  return Job(model, tokenizer, requests, options, *stream, rows, onFinished).run();
}

Expected<std::vector<Generation>> generate(LanguageModel &model, const Tokenizer *tokenizer,
                                           ArrayRef<std::vector<int32_t>> prompts, const GenerateOptions &options) {
  std::vector<GenerationRequest> requests;
  for (const auto &[i, prompt] : llvm::enumerate(prompts))
    requests.push_back({prompt, i, options});
  std::vector<Generation> results(prompts.size());
  auto keep = [&](size_t request, Generation result) {
    results[request] = std::move(result);
    return Error::success();
  };
  auto rows = static_cast<size_t>(model.maxBatch());
  if (Error error = generateEach(model, tokenizer, requests, rows, options, keep))
    return error;
  return results;
}

} // namespace kiln
