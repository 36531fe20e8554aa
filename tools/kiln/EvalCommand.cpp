#include "tools/kiln/Commands.h"
#include "tools/kiln/ProgressLine.h"
#include "tools/kiln/Version.h"
#include "tools/session/RankProcess.h"

#include "runtime/generation/scoring/MultipleChoice.h"
#include "runtime/generation/scoring/ReplicatedScorer.h"
#include "support/Diagnostic.h"
#include "support/files/File.h"
#include "support/process/Process.h"
#include "support/text/Json.h"
#include "tools/session/UsageError.h"

#include <chrono>

namespace kiln {

namespace {

/// Scores a model, with a running estimate.
class Evaluation {
public:
  Evaluation(const EvalCommand &command, Scorer &scorer, int64_t batch)
      : command(command), scorer(scorer), batch(batch), progress(command.quiet) {}

  Error scoreText(ArrayRef<int32_t> tokens);
  Error scoreChoices(ArrayRef<ChoiceExample> examples);

private:
  using Clock = std::chrono::steady_clock;

  double tokensPerSecond(int64_t tokens) const {
    double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    return seconds > 0 ? static_cast<double>(tokens) / seconds : 0;
  }
  void print(json::Object object, const Twine &line, int64_t tokens);

  const EvalCommand &command;
  Scorer &scorer;
  int64_t batch;
  ProgressLine progress;
  Clock::time_point start = Clock::now();
};

void Evaluation::print(json::Object object, const Twine &line, int64_t tokens) {
  progress.finish();
  if (!command.json) {
    standardOutput() << line << '\n';
    return;
  }
  object["tokens_scored"] = tokens;
  object["tokens_per_second"] = jsonQuantity(tokensPerSecond(tokens));
  standardOutput() << jsonText(std::move(object)) << '\n';
}

Error Evaluation::scoreText(ArrayRef<int32_t> tokens) {
  PerplexityOptions options;
  options.window = command.window;
  options.stride = command.stride;
  options.batch = batch;
  options.onWindow = [&](int64_t window, int64_t count, const PerplexityResult &sofar) {
    progress.show(window, count,
                  formatv("perplexity {0:F4} +/- {1:F4}, {2:F0} tokens/s", sofar.perplexity(), sofar.standardError(),
                          tokensPerSecond(sofar.tokensScored))
                      .str());
  };
  Expected<PerplexityResult> result = evaluatePerplexity(scorer, tokens, options);
  if (!result)
    return result.takeError();
  print(json::Object{{"perplexity", result->perplexity()},
                     {"standard_error", result->standardError()},
                     {"nll", result->nll},
                     {"accuracy", result->accuracy()},
                     {"window", result->window},
                     {"stride", result->stride}},
        formatv("perplexity = {0:F4} +/- {1:F4} ({2} tokens, window {3}, stride {4})", result->perplexity(),
                result->standardError(), result->tokensScored, result->window, result->stride)
            .str(),
        result->tokensScored);
  return Error::success();
}

Error Evaluation::scoreChoices(ArrayRef<ChoiceExample> examples) {
  ChoiceOptions options;
  options.batch = batch;
  options.onExamples = [&](const ChoiceResult &sofar) {
    progress.show(static_cast<size_t>(sofar.examples), examples.size(),
                  formatv("acc {0:F4} +/- {1:F4}, acc_norm {2:F4} +/- {3:F4}, {4:F0} tokens/s", sofar.accuracy(),
                          sofar.accuracyError(), sofar.normalisedAccuracy(), sofar.normalisedAccuracyError(),
                          tokensPerSecond(sofar.tokensScored))
                      .str());
  };
  Expected<ChoiceResult> result = evaluateChoices(scorer, examples, options);
  if (!result)
    return result.takeError();
  std::string truncated = result->truncated ? formatv(", {0} truncated", result->truncated).str() : "";
  print(json::Object{{"acc", result->accuracy()},
                     {"acc_standard_error", result->accuracyError()},
                     {"acc_norm", result->normalisedAccuracy()},
                     {"acc_norm_standard_error", result->normalisedAccuracyError()},
                     {"examples", result->examples},
                     {"truncated", result->truncated}},
        formatv("acc = {0:F4} +/- {1:F4}, acc_norm = {2:F4} +/- {3:F4} ({4} examples{5})", result->accuracy(),
                result->accuracyError(), result->normalisedAccuracy(), result->normalisedAccuracyError(),
                result->examples, truncated)
            .str(),
        result->tokensScored);
  return Error::success();
}

/// The windows that there are, or a few more; memory is for no more than these.
int64_t windowCount(const EvalCommand &command, const EvalData &data, int64_t context) {
  int64_t count = 0;
  for (const ChoiceExample &example : data.examples)
    count += static_cast<int64_t>(example.endings.size());
  int64_t window = command.window ? command.window : context;
  int64_t stride = command.stride ? command.stride : window;
  return count + static_cast<int64_t>(llvm::divideCeil(data.tokens.size(), static_cast<uint64_t>(stride)));
}

/// The windows that are scored side by side on each device. A plan may be for fewer than the usual number.
int64_t batchOf(const EvalCommand &command, StringRef device, const ModelSource *source) {
  constexpr int64_t usualBatch = 16;
  if (command.batch)
    return *command.batch;
  int64_t batch = device == "cpu" ? 1 : usualBatch;
  const PlanDim *dim = source && source->plan ? source->plan->findDim(source->plan->entries.batch) : nullptr;
  return dim ? std::min(batch, dim->max) : batch;
}

/// Error: --window or --stride, which examples have no use for; windows that do not fit; a text with nothing to score.
Error checkWindows(const EvalCommand &command, const EvalData &data, int64_t context) {
  if (!data.examples.empty()) {
    for (auto [flag, value] : {std::pair("--window", command.window), {"--stride", command.stride}})
      if (value > 0)
        return makeUsageError(Twine(flag) + ": expected a text or tokens to cut into windows, got questions");
    return Error::success();
  }
  PerplexityOptions options;
  options.window = command.window;
  options.stride = command.stride;
  if (Error error = settledOptions(options, context).takeError())
    return asUsageError(std::move(error));
  if (data.tokens.size() < 2)
    return makeFileError(inputName(command.text),
                         "expected a text of at least 2 tokens, got " + Twine(data.tokens.size()));
  return Error::success();
}

Error evaluate(const EvalCommand &command, RankGroup *group) {
  EngineOptions options;
  Expected<std::vector<std::string>> resolved = resolveDevices(command.device, group);
  if (!resolved)
    return resolved.takeError();
  std::vector<std::string> devices = std::move(*resolved);
  options.group = group;
  options.device = devices.front();
  options.entries = {Entry::Score};
  Expected<ModelSource> source = openModel({.model = command.model,
                                            .weights = command.weights,
                                            .pipeline = command.pipeline,
                                            .batch = batchOf(command, options.device, nullptr),
                                            .device = options.device,
                                            .reference = referenceUse(options)});
  if (!source)
    return source.takeError();
  if (Error error = group ? checkRanks(source->ranks(), *group)
                          : resolveDevices(command.device, source->ranks()).moveInto(devices))
    return error;
  if (group && group->rank() > 0)
    return followRank(*source, options);
  const size_t replicas = source->ranks() > 1 ? 1 : devices.size();
  const Tokenizer *tokenizer = source->tokenizer ? &*source->tokenizer : nullptr;
  Expected<EvalData> data = readEvalData(command.text, command.form, tokenizer, source->model().vocabulary);
  if (!data)
    return data.takeError();
  bool areChoices = !data->examples.empty();
  if (Error error = checkWindows(command, *data, source->model().context))
    return error;
  auto shareOfWindows = static_cast<int64_t>(
      llvm::divideCeil(static_cast<uint64_t>(windowCount(command, *data, source->model().context)), replicas));
  options.batch = std::max<int64_t>(1, std::min(batchOf(command, options.device, &*source), shareOfWindows));
  ProgressLine progress(command.quiet);
  options.onKernelCompiled = [&](size_t done, size_t all, StringRef kernel) { progress.show(done, all, kernel); };
  std::vector<std::unique_ptr<Engine>> engines;
  if (Error error = openEngines(*source, options, devices).moveInto(engines))
    return error;
  progress.finish();
  std::vector<Scorer *> scorers;
  for (const auto &engine : engines)
    scorers.push_back(&engine->scorer());
  ReplicatedScorer all(scorers);
  const bool areSeveral = scorers.size() > 1;
  Evaluation evaluation(command, areSeveral ? all : *scorers.front(), areSeveral ? all.maxBatch() : options.batch);
  Error error = areChoices ? evaluation.scoreChoices(data->examples) : evaluation.scoreText(data->tokens);
  return engines.front()->finish(std::move(error));
}

} // namespace

Error run(const EvalCommand &command) {
  return runAsRank({programVersion(), command.model, command.pipeline.ranks, command.processes},
                   [&](RankGroup *group) { return evaluate(command, group); });
}

} // namespace kiln
