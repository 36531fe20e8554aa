#include "runtime/generation/Generator.h"

#include "runtime/generation/StopStrings.h"
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

static Error checkOptions(const LanguageModel &model, const Tokenizer *tokenizer, const GenerateOptions &options) {
  if (Error error = checkSamplingParams(options.sampling))
    return error;
  if (options.maxNewTokens < 0)
    return makeError("--max-new-tokens: expected 0 or more, got " + Twine(options.maxNewTokens));
  if (options.slideKeep < 0 || options.slideKeep > model.contextLength())
    return makeError("--slide-keep: expected 0 (half the context) or up to the context of " +
                     Twine(model.contextLength()) + " tokens, got " + Twine(options.slideKeep));
  if (llvm::is_contained(options.stopStrings, ""))
    return makeError("--stop: expected some text, got none");
  if (!options.stopStrings.empty() && !tokenizer)
    return makeError("--stop: expected a tokenizer to compare text with, got none");
  return Error::success();
}

Error checkPrompt(const LanguageModel &model, size_t index, ArrayRef<int32_t> prompt) {
  std::string name = ("prompt " + Twine(index + 1)).str();
  auto length = static_cast<int64_t>(prompt.size());
  int64_t context = model.contextLength();
  if (prompt.empty())
    return makeError(name + ": expected at least one token, got none");
  for (int32_t id : prompt)
    if (id < 0 || id >= model.vocabSize())
      return makeError(name + ": expected token ids in 0.." + Twine(model.vocabSize() - 1) + ", got " + Twine(id));
  if (length > context)
    return makeError(name + ": expected at most the context of " + Twine(context) + " tokens, got " + Twine(length) +
                     "; shorten the prompt");
  return Error::success();
}

/// Error: prompt and new tokens may not fit in the context, and must.
static Error checkRoom(const LanguageModel &model, size_t index, ArrayRef<int32_t> prompt,
                       const GenerateOptions &options) {
  auto length = static_cast<int64_t>(prompt.size());
  int64_t context = model.contextLength();
  if (options.overflow == OverflowPolicy::Error && options.maxNewTokens > context - length)
    return makeError("prompt " + Twine(index + 1) + ": expected prompt and new tokens to fit in the context of " +
                     Twine(context) + ", got " + Twine(length) + " and " + Twine(options.maxNewTokens) +
                     "; lower --max-new-tokens to " + Twine(context - length) +
                     ", shorten the prompt, or choose --overflow stop or slide");
  return Error::success();
}

//===----------------------------------------------------------------------===//
// One sequence
//===----------------------------------------------------------------------===//

namespace {
/// A sequence during generation.
class Sequence {
public:
  Sequence(const LanguageModel &model, const Tokenizer *tokenizer, ArrayRef<int32_t> prompt,
           const GenerateOptions &options);

  bool isDone() const { return done; }

  /// Ends the sequence as it is, without the text that is still held back.
  void cancel();

  /// The tokens from which the model must restart this row before the next step; usually none.
  std::vector<int32_t> takeRestart();

  /// Adds a token. Returns the text that is now certain; after the last token, all held-back text.
  Expected<std::string> add(int32_t token);

  Generation result;

private:
  int64_t length() const { return static_cast<int64_t>(result.promptTokens.size() + result.newTokens.size()); }
  Expected<std::string> addText(int32_t token);
  std::string finishText();
  bool isFull() const;

  const GenerateOptions &options;
  int64_t contextLength;
  std::optional<StreamingDecoder> decoder;
  StopStrings stopStrings;
  int64_t windowStart = 0; ///< index of the first token that the model holds
  bool done = false;
};
} // namespace

Sequence::Sequence(const LanguageModel &model, const Tokenizer *tokenizer, ArrayRef<int32_t> prompt,
                   const GenerateOptions &options)
    : options(options), contextLength(model.contextLength()), stopStrings(options.stopStrings) {
  if (tokenizer)
    decoder.emplace(*tokenizer);
  result.promptTokens = prompt.vec();
  done = isFull();
}

std::vector<int32_t> Sequence::takeRestart() {
  if (done || length() - windowStart <= contextLength)
    return {};
  int64_t keep = options.slideKeep > 0 ? options.slideKeep : std::max<int64_t>(contextLength / 2, 1);
  windowStart = length() - keep;
  std::vector<int32_t> all = result.promptTokens;
  llvm::append_range(all, result.newTokens);
  return {all.begin() + windowStart, all.end()};
}

void Sequence::cancel() {
  if (done)
    return;
  done = true;
  result.finishReason = FinishReason::Cancelled;
}

Expected<std::string> Sequence::addText(int32_t token) {
  if (!decoder)
    return std::string();
  Expected<std::string> text = decoder->push(token);
  return text ? stopStrings.push(*text) : std::move(text);
}

/// The text that was held back because it could have been part of a stop string or character.
std::string Sequence::finishText() {
  std::string text = decoder ? stopStrings.push(decoder->finish()) : "";
  return text + stopStrings.finish();
}

/// Whether the sequence has reached its maximum length.
bool Sequence::isFull() const {
  return static_cast<int64_t>(result.newTokens.size()) >= options.maxNewTokens ||
         (options.overflow == OverflowPolicy::Stop && length() >= contextLength);
}

Expected<std::string> Sequence::add(int32_t token) {
  result.newTokens.push_back(token);
  bool isEos = !options.ignoreEos && llvm::is_contained(options.eosIds, token);
  std::string text;
  if (!isEos) {
    Expected<std::string> added = addText(token);
    if (!added)
      return added;
    text = std::move(*added);
  }
  done = isEos || stopStrings.isStopped() || isFull();
  if (done)
    text += finishText();
  if (isEos)
    result.finishReason = FinishReason::Eos;
  else if (stopStrings.isStopped())
    result.finishReason = FinishReason::Stop;
  result.text += text;
  return text;
}

//===----------------------------------------------------------------------===//
// Batches
//===----------------------------------------------------------------------===//

namespace {
/// Runs several sequences side by side until the last one ends.
class Batch {
public:
  Batch(TokenStream &stream, MutableArrayRef<Sequence> rows, size_t firstSequence, const GenerateOptions &options)
      : stream(stream), rows(rows), firstSequence(firstSequence), options(options) {}

  Error run();

private:
  using Clock = Trace::Clock;

  /// The milliseconds since `start`, which become a span.
  double endSpan(TraceLane lane, StringRef name, Clock::time_point start, int64_t sequences) const {
    Clock::time_point end = Clock::now();
    if (options.trace)
      options.trace->add(
          lane, name, start, end,
          json::Object{{"first_sequence", static_cast<int64_t>(firstSequence)}, {"sequences", sequences}});
    return std::chrono::duration<double, std::milli>(end - start).count();
  }

  Error startRows();
  Error restartRows();
  Error step(const BitVector &active, bool isFirst);
  Error addToken(size_t row, int32_t token, double ms);
  BitVector activeRows() const;
  bool cancelled();

  TokenStream &stream;
  MutableArrayRef<Sequence> rows;
  size_t firstSequence;
  const GenerateOptions &options;
};
} // namespace

BitVector Batch::activeRows() const {
  BitVector active(rows.size());
  for (size_t row = 0; row < rows.size(); ++row)
    if (!rows[row].isDone())
      active.set(row);
  return active;
}

Error Batch::startRows() {
  Clock::time_point start = Clock::now();
  std::vector<std::vector<int32_t>> prompts;
  for (const Sequence &row : rows)
    prompts.push_back(row.isDone() ? std::vector<int32_t>() : row.result.promptTokens);
  if (Error error = stream.start(prompts))
    return error;
  auto isGiven = [](const auto &prompt) { return !prompt.empty(); };
  double ms = endSpan(TraceLane::Prompts, "prompts", start, llvm::count_if(prompts, isGiven));
  for (Sequence &row : rows)
    row.result.promptMs = ms;
  return Error::success();
}

/// Restarts the rows whose context must slide; the others keep their state.
Error Batch::restartRows() {
  std::vector<std::vector<int32_t>> prompts;
  for (Sequence &row : rows)
    prompts.push_back(row.takeRestart());
  int64_t restarted = llvm::count_if(prompts, [](const auto &prompt) { return !prompt.empty(); });
  if (restarted == 0)
    return Error::success();
  Clock::time_point start = Clock::now();
  Error error = stream.start(prompts);
  endSpan(TraceLane::Prompts, "slide", start, restarted);
  return error;
}

Error Batch::addToken(size_t row, int32_t token, double ms) {
  Generation &result = rows[row].result;
  result.tokenMs.push_back(ms);
  if (options.keepLogits)
    result.logits.push_back(stream.logits(row).vec());
  Expected<std::string> text = rows[row].add(token);
  if (!text)
    return text.takeError();
  if (options.onToken)
    options.onToken(firstSequence + row, token, *text);
  return Error::success();
}

Error Batch::step(const BitVector &active, bool isFirst) {
  Clock::time_point start = Clock::now();
  if (Error error = restartRows())
    return error;
  std::vector<int32_t> tokens(rows.size(), idleRow);
  if (Error error = stream.next(active, tokens))
    return error;
  double ms = endSpan(TraceLane::Decode, isFirst ? "first token" : "decode", start, active.count());
  for (unsigned row : active.set_bits())
    if (Error error = addToken(row, tokens[row], ms))
      return error;
  return Error::success();
}

/// Whether the caller wants no more; ends all sequences then.
bool Batch::cancelled() {
  if (!options.isCancelled || !options.isCancelled())
    return false;
  for (Sequence &row : rows)
    row.cancel();
  return true;
}

Error Batch::run() {
  BitVector active = activeRows();
  if (active.none() || cancelled())
    return Error::success();
  if (Error error = startRows())
    return error;
  for (bool isFirst = true; active.any() && !cancelled(); active = activeRows(), isFirst = false)
    if (Error error = step(active, isFirst))
      return error;
  for (size_t row = 0; row < rows.size(); ++row)
    if (const SpeculationCounts *counts = stream.speculation(row))
      rows[row].result.speculation = *counts;
  return Error::success();
}

static std::unique_ptr<TokenStream> openStream(LanguageModel &model, const GenerateOptions &options,
                                               const StreamOptions &stream) {
  if (!options.draft)
    return model.openStream(stream);
  return std::make_unique<SpeculativeStream>(model, *options.draft, options.draftLength, stream);
}

Expected<std::vector<Generation>> generate(LanguageModel &model, const Tokenizer *tokenizer,
                                           ArrayRef<std::vector<int32_t>> prompts, const GenerateOptions &options) {
  if (Error error = checkOptions(model, tokenizer, options))
    return error;
  for (size_t i = 0; i < prompts.size(); ++i) {
    if (Error error = checkPrompt(model, i, prompts[i]))
      return error;
    if (Error error = checkRoom(model, i, prompts[i], options))
      return error;
  }

  std::vector<Generation> results;
  while (results.size() < prompts.size()) {
    size_t first = results.size();
    std::vector<Sequence> rows;
    for (ArrayRef<int32_t> prompt : prompts.drop_front(first).take_front(model.maxBatch()))
      rows.emplace_back(model, tokenizer, prompt, options);
    StreamOptions streamOptions{options.sampling, first, options.keepLogits,
                                options.ignoreEos ? std::vector<int32_t>() : options.eosIds, options.maxNewTokens};
    std::unique_ptr<TokenStream> stream = openStream(model, options, streamOptions);
    if (Error error = Batch(*stream, rows, first, options).run())
      return error;
    for (Sequence &row : rows)
      results.push_back(std::move(row.result));
  }
  return results;
}

} // namespace kiln
