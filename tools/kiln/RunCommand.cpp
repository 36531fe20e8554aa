#include "tools/kiln/Commands.h"
#include "tools/kiln/Input.h"
#include "tools/kiln/OpenDraft.h"
#include "tools/kiln/ProgressLine.h"
#include "tools/kiln/Tracing.h"
#include "tools/session/Engine.h"
#include "tools/session/UsageError.h"

#include "support/Json.h"
#include "support/Process.h"

#include <numeric>

namespace kiln {

namespace {

double percentile(std::vector<double> values, double share) {
  if (values.empty())
    return 0;
  llvm::sort(values);
  return values[std::min(values.size() - 1, static_cast<size_t>(share * static_cast<double>(values.size())))];
}

/// Times of the steps after the first token of a sequence.
std::vector<double> stepTimes(const Generation &generation) {
  if (generation.tokenMs.empty())
    return {};
  return std::vector<double>(generation.tokenMs.begin() + 1, generation.tokenMs.end());
}

int64_t sumOf(ArrayRef<int64_t> values) { return std::accumulate(values.begin(), values.end(), int64_t(0)); }
double sum(ArrayRef<double> values) { return std::accumulate(values.begin(), values.end(), 0.0); }

/// Tokens that each pass has given; without guesses, 1. The first token is of the prompt.
double tokensPerPass(int64_t tokens, int64_t passes) {
  return static_cast<double>(tokens) / static_cast<double>(std::max<int64_t>(1, passes));
}

json::Object toJson(const SpeculationCounts &counts, size_t newTokens) {
  return json::Object{
      {"passes", counts.passes},
      {"drafted", sumOf(counts.drafted)},
      {"accepted", sumOf(counts.accepted)},
      {"drafted_by_place", json::Array(counts.drafted)},
      {"accepted_by_place", json::Array(counts.accepted)},
      {"tokens_per_pass", jsonQuantity(tokensPerPass(static_cast<int64_t>(newTokens) - 1, counts.passes))}};
}

json::Object toJson(const Generation &generation, bool withLogits, bool withDraft) {
  json::Object object{{"prompt_tokens", json::Array(generation.promptTokens)},
                      {"tokens", json::Array(generation.newTokens)},
                      {"text", generation.text},
                      {"finish_reason", finishReasonName(generation.finishReason)}};
  if (withLogits) {
    json::Array rows;
    for (const std::vector<float> &row : generation.logits)
      rows.push_back(json::Array(llvm::map_range(row, jsonFloat)));
    object["logits"] = std::move(rows);
  }
  if (withDraft)
    object["speculation"] = toJson(generation.speculation, generation.newTokens.size());
  std::vector<double> steps = stepTimes(generation);
  object["timing"] = json::Object{{"prompt_ms", jsonQuantity(generation.promptMs)},
                                  {"decode_ms", jsonQuantity(sum(steps))},
                                  {"token_ms_p50", jsonQuantity(percentile(steps, 0.5))},
                                  {"token_ms_p90", jsonQuantity(percentile(steps, 0.9))},
                                  {"token_ms_p99", jsonQuantity(percentile(steps, 0.99))}};
  return object;
}

void printRate(StringRef what, double ms, size_t tokens) {
  double count = static_cast<double>(std::max<size_t>(1, tokens));
  llvm::errs() << formatv("{0} = {1:F2} ms / {2} tokens ({3:F2} ms per token, {4:F2} tokens per second)\n", what, ms,
                          tokens, ms / count, ms > 0 ? 1000 * count / ms : 0);
}

void printSummary(ArrayRef<Generation> generations) {
  size_t promptTokens = 0, steps = 0;
  std::vector<double> times;
  for (const Generation &generation : generations) {
    promptTokens += generation.promptTokens.size();
    std::vector<double> own = stepTimes(generation);
    steps += own.size();
    // Sequences of one batch step together: the longest one gives the time of the batch.
    if (own.size() > times.size())
      times = std::move(own);
  }
  printRate("prompt eval time", generations.front().promptMs, promptTokens);
  printRate("       eval time", sum(times), steps);
  llvm::errs() << formatv("time to first token = {0:F2} ms, between tokens p50 {1:F2} p90 {2:F2} p99 {3:F2} ms\n",
                          generations.front().promptMs, percentile(times, 0.5), percentile(times, 0.9),
                          percentile(times, 0.99));
}

void printSpeculation(ArrayRef<Generation> generations) {
  int64_t passes = 0, tokens = 0, drafted = 0, accepted = 0;
  for (const Generation &generation : generations) {
    passes += generation.speculation.passes;
    tokens += std::max<int64_t>(0, static_cast<int64_t>(generation.newTokens.size()) - 1);
    drafted += sumOf(generation.speculation.drafted);
    accepted += sumOf(generation.speculation.accepted);
  }
  llvm::errs() << formatv("speculation = {0} tokens drafted, {1} accepted, {2:F2} tokens a pass\n", drafted, accepted,
                          tokensPerPass(tokens, passes));
}

/// The form in which a sequence is printed without --json: text, or ids if there is no vocabulary.
std::string shown(const Tokenizer *tokenizer, ArrayRef<int32_t> ids) {
  if (tokenizer) {
    Expected<std::string> text = tokenizer->decode(ids);
    if (text)
      return *text;
    llvm::consumeError(text.takeError()); // a model may know more ids than its vocabulary
  }
  std::string text;
  for (int32_t id : ids)
    text += std::to_string(id) + " ";
  return text;
}

} // namespace

namespace {

/// The device and the checks on it. Error: a UsageError about an option that the reference executor does not support.
Expected<EngineOptions> engineOptions(const RunCommand &command) {
  EngineOptions options;
  options.device = resolveDevice(command.device);
  options.batch = command.prompts.count();
  options.entries = {Entry::Prefill, Entry::Decode};
  options.checkReference = command.check == "reference";
  options.checkAccesses = command.check != "none";
  options.schedule = command.schedule;
  options.kernelsFrom = command.kernelsFrom;
  options.traceKernels = command.traceKernels;
  if (options.device == "cpu" && options.checkReference)
    return makeReferenceError("--check reference", "is what steps would be compared with");
  if (options.device == "cpu" && !options.kernelsFrom.empty())
    return makeReferenceError("--kernels-from", "runs no kernels");
  if (options.device == "cpu" && options.traceKernels)
    return makeReferenceError("--trace-kernels", "runs no kernels");
  return options;
}

using Prompts = std::vector<std::vector<int32_t>>;

/// Replaces empty prompts by the end-of-text token, since a model needs one token to begin with. Error: the model has
/// no such token.
Expected<Prompts> withBeginnings(Prompts prompts, const ModelSource &source) {
  std::optional<int32_t> begin = source.beginToken();
  for (auto [i, prompt] : llvm::enumerate(prompts)) {
    if (!prompt.empty())
      continue;
    if (!begin)
      return makeError("prompt " + Twine(i + 1) +
                       ": expected at least one token, got none, and the model has no end-of-text token to begin "
                       "with; give --prompt, --prompt-file or --tokens");
    prompt = {*begin};
  }
  return prompts;
}

/// Writes sequences to standard output: a single one as it is generated, several one after the other, since their
/// tokens would be mixed.
class SequencePrinter {
public:
  /// `prompts` are printed as the user gave them.
  SequencePrinter(const RunCommand &command, const Tokenizer *tokenizer, const Prompts &prompts)
      : command(command), tokenizer(tokenizer), prompts(prompts) {}

  bool isStreaming() const { return !command.json && prompts.size() == 1; }

  void addToken(int32_t token, StringRef text) {
    echoPrompt(0);
    standardOutput() << (tokenizer ? text.str() : std::to_string(token) + " ");
    standardOutput().flush();
  }

  void finish(ArrayRef<Generation> generations) {
    for (const auto &[i, generation] : llvm::enumerate(generations)) {
      if (command.json) {
        standardOutput() << jsonText(toJson(generation, command.wantLogits, !command.draft.what.empty())) << '\n';
        continue;
      }
      echoPrompt(i);
      if (!isStreaming())
        standardOutput() << (tokenizer ? generation.text : shown(nullptr, generation.newTokens));
      standardOutput() << '\n';
    }
    standardOutput().flush();
  }

private:
  void echoPrompt(size_t i) {
    if (i < echoed)
      return;
    ++echoed;
    if (!command.noEcho)
      standardOutput() << shown(tokenizer, prompts[i]);
  }

  const RunCommand &command;
  const Tokenizer *tokenizer;
  const Prompts &prompts;
  size_t echoed = 0; ///< prompts printed so far
};

GenerateOptions generateOptions(const RunCommand &command, const ModelSource &source, SequencePrinter &printer) {
  GenerateOptions options = command.generate;
  // As the temperature falls to 0, sampling becomes greedy, whatever top-k, top-p and min-p are.
  if (options.sampling.temperature == 0)
    options.sampling = {.greedy = true};
  options.overflow = *parseOverflowPolicy(command.overflow);
  options.keepLogits = command.wantLogits;
  for (int64_t id : source.model().eosTokens)
    options.eosIds.push_back(static_cast<int32_t>(id));
  if (printer.isStreaming())
    options.onToken = [&](size_t, int32_t token, StringRef text) { printer.addToken(token, text); };
  return options;
}

Error generateAll(const RunCommand &command, Trace *trace) {
  Expected<EngineOptions> onDevice = engineOptions(command);
  if (!onDevice)
    return onDevice.takeError();
  onDevice->trace = trace;
  PipelineChoices pipeline = command.pipeline;
  prepareForDraft(command, *onDevice, pipeline);
  ModelRequest request{.model = command.model,
                       .weights = command.weights,
                       .pipeline = pipeline,
                       .batch = onDevice->batch,
                       .reference = referenceUse(*onDevice)};
  Expected<ModelSource> source = traced(trace, TraceLane::Host, "open the model", [&] { return openModel(request); });
  if (!source)
    return source.takeError();
  const Tokenizer *tokenizer = source->tokenizer ? &*source->tokenizer : nullptr;
  Expected<Prompts> given = readPrompts(command.prompts, tokenizer, source->filesPath);
  if (!given)
    return given.takeError();
  Expected<Prompts> prompts = withBeginnings(*given, *source);
  if (!prompts)
    return prompts.takeError();
  ProgressLine progress(command.quiet);
  onDevice->onKernelCompiled = [&](size_t done, size_t all, StringRef kernel) { progress.show(done, all, kernel); };
  Expected<OpenedDraft> draft = openDraft(command, *source, *onDevice);
  if (!draft)
    return draft.takeError();
  auto engine = traced(trace, TraceLane::Host, "open the device", [&] { return openEngine(*source, *onDevice); });
  progress.finish();
  if (!engine)
    return engine.takeError();
  SequencePrinter printer(command, tokenizer, *given);
  GenerateOptions options = generateOptions(command, *source, printer);
  options.draft = draft->draft.get();
  options.draftLength = draft->length;
  options.trace = trace;
  Expected<std::vector<Generation>> generations = traced(
      trace, TraceLane::Host, "generate", [&] { return generate((*engine)->model(), tokenizer, *prompts, options); });
  if (!generations)
    return generations.takeError();
  printer.finish(*generations);
  if (!command.quiet && !command.json)
    printSummary(*generations);
  if (!command.quiet && !command.json && draft->draft)
    printSpeculation(*generations);
  if (!command.quiet && command.check == "reference")
    llvm::errs() << (*engine)->stepsChecked() << " steps agree with the reference executor\n";
  return Error::success();
}

} // namespace

Error run(const RunCommand &command) {
  return withTrace(command.trace, "kiln run", [&](Trace *trace) { return generateAll(command, trace); });
}

} // namespace kiln
