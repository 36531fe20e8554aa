#include "tools/kiln/Commands.h"
#include "tools/kiln/Input.h"
#include "tools/session/Engine.h"

#include "support/Json.h"

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

double sum(ArrayRef<double> values) { return std::accumulate(values.begin(), values.end(), 0.0); }

json::Object toJson(const Generation &generation, bool withLogits) {
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
    // Sequences of one batch step together: the longest tells how long that took.
    if (own.size() > times.size())
      times = std::move(own);
  }
  printRate("prompt eval time", generations.front().promptMs, promptTokens);
  printRate("       eval time", sum(times), steps);
  llvm::errs() << formatv("time to first token = {0:F2} ms, between tokens p50 {1:F2} p90 {2:F2} p99 {3:F2} ms\n",
                          generations.front().promptMs, percentile(times, 0.5), percentile(times, 0.9),
                          percentile(times, 0.99));
}

/// What a sequence shows on standard output when no JSON is asked for: text, or ids where there is no vocabulary.
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

Error run(const RunCommand &command) {
  Expected<PipelineOptions> pipeline = pipelineOptions(command.pipeline);
  if (!pipeline)
    return pipeline.takeError();
  Expected<ModelSource> source = openModel(command.model, command.weights, command.prompts.count(), *pipeline);
  if (!source)
    return source.takeError();
  const Tokenizer *tokenizer = source->tokenizer ? &*source->tokenizer : nullptr;
  auto prompts = readPrompts(command.prompts, tokenizer, source->tokenizerDirectory);
  if (!prompts)
    return prompts.takeError();

  GenerateOptions options = command.generate;
  options.overflow = *parseOverflowPolicy(command.overflow);
  options.keepLogits = command.wantLogits;
  if (auto eos = source->module->attributes.find("eos"); eos != source->module->attributes.end())
    for (const Attribute &id : eos->second.asList())
      options.eosIds.push_back(static_cast<int32_t>(id.asInt()));
  // One sequence appears as it is written; several would be mixed, and are printed one after the other.
  bool isStreaming = !command.json && prompts->size() == 1;
  bool isStarted = false;
  auto echoPrompt = [&] {
    if (!std::exchange(isStarted, true) && !command.noEcho)
      llvm::outs() << shown(tokenizer, prompts->front());
  };
  if (isStreaming)
    options.onToken = [&](size_t, int32_t token, StringRef text) {
      echoPrompt();
      llvm::outs() << (tokenizer ? text.str() : std::to_string(token) + " ");
      llvm::outs().flush();
    };

  EngineOptions engineOptions;
  engineOptions.device = command.device;
  engineOptions.batch = static_cast<int64_t>(prompts->size());
  engineOptions.functions = {"prefill", "decode"};
  engineOptions.checkReference = command.check == "reference";
  engineOptions.checkAccesses = command.check != "none";
  engineOptions.schedule = command.schedule;
  engineOptions.kernelsFrom = command.kernelsFrom;
  auto engine = openEngine(*source, engineOptions);
  if (!engine)
    return engine.takeError();
  Expected<std::vector<Generation>> generations = generate((*engine)->model(), tokenizer, *prompts, options);
  if (!generations)
    return generations.takeError();
  for (const Generation &generation : *generations) {
    if (command.json)
      llvm::outs() << jsonText(toJson(generation, command.wantLogits)) << '\n';
    else if (!isStreaming)
      llvm::outs() << (command.noEcho ? "" : shown(tokenizer, generation.promptTokens))
                   << (tokenizer ? generation.text : shown(nullptr, generation.newTokens)) << '\n';
  }
  if (isStreaming) {
    echoPrompt();
    llvm::outs() << '\n';
  }
  llvm::outs().flush();
  if (!command.quiet && !command.json)
    printSummary(*generations);
  if (!command.quiet && command.check == "reference")
    llvm::errs() << (*engine)->stepsChecked() << " steps agree with the reference executor\n";
  return Error::success();
}

} // namespace kiln
