#include "tools/compare/Compare.h"
#include "tools/kiln/Commands.h"
#include "tools/kiln/ProgressLine.h"

#include "support/Diagnostic.h"
#include "support/files/File.h"
#include "support/process/Process.h"
#include "support/text/Json.h"
#include "tools/session/UsageError.h"

namespace kiln {

namespace {

/// A side with all that it needs.
struct OpenedSide {
  ComparedSide side;
  EngineOptions options;
  std::optional<ModelSource> source;
  std::unique_ptr<Engine> engine;
  std::optional<LogitsFile> file;

  int64_t vocabulary() const { return file ? file->vocabulary() : source->model().vocabulary; }
};

constexpr int64_t usualBatch = 8;

/// Two sides, and the sequences on which they are compared.
class Session {
public:
  explicit Session(const CompareCommand &command) : command(command), progress(command.quiet) {}

  Expected<Comparison> compare();

private:
  Error openSide(StringRef path, StringRef device, const PipelineChoices &pipeline, OpenedSide &side);
  Error openEngines();
  Error makeSequences();
  Error sequencesOfFile(const LogitsFile &file);
  Error sequencesOfText();
  Error sequencesToWrite();
  int64_t context() const;

  const CompareCommand &command;
  OpenedSide a, b;
  std::vector<ComparedSequence> sequences;
  CompareOptions options;
  ProgressLine progress;
};

Error Session::openSide(StringRef path, StringRef device, const PipelineChoices &pipeline, OpenedSide &side) {
  side.side.name = path.str();
  if (LogitsFile::isPath(path))
    return LogitsFile::open(path).moveInto(side.file);
  side.options.device = resolveDevice(device);
  side.options.entries = {Entry::Prefill, Entry::Decode, Entry::Score};
  return openModel({.model = path.str(),
                    .weights = command.weights,
                    .pipeline = pipeline,
                    .batch = usualBatch,
                    .device = side.options.device,
                    .reference = referenceUse(side.options)})
      .moveInto(side.source);
}

/// The most tokens that both sides see at once.
int64_t Session::context() const {
  int64_t least = INT64_MAX;
  for (const OpenedSide *side : {&a, &b})
    if (side->source)
      least = std::min(least, side->source->model().context);
  return least;
}

Error Session::sequencesOfFile(const LogitsFile &file) {
  if (file.length() > context())
    return makeFileError((a.file ? a : b).side.name, "expected sequences of at most the model's context of " +
                                                         Twine(context()) + " tokens, got " + Twine(file.length()));
  for (int64_t left = command.maxTokens ? command.maxTokens : INT64_MAX, i = 0; i < file.sequences() && left > 0; ++i) {
    auto inputs = static_cast<size_t>(std::min(left, file.length()));
    sequences.push_back({file.tokens(i).vec(), inputs});
    left -= static_cast<int64_t>(inputs);
  }
  return Error::success();
}

Error Session::sequencesOfText() {
  const ModelSource &source = *a.source;
  const Tokenizer *tokenizer = source.tokenizer ? &*source.tokenizer : nullptr;
  Expected<EvalData> data = readEvalData(command.text, command.form, tokenizer, source.model().vocabulary);
  if (!data)
    return data.takeError();
  ArrayRef<int32_t> tokens = data->tokens;
  if (!data->examples.empty())
    return makeFileError(inputName(command.text), "expected a text or tokens, got questions");
  if (tokens.size() < 2)
    return makeFileError(inputName(command.text), "expected a text of at least 2 tokens, got " + Twine(tokens.size()));
  if (command.maxTokens)
    tokens = tokens.take_front(static_cast<size_t>(command.maxTokens) + 1);
  auto window = static_cast<size_t>(command.window ? command.window : context());
  for (size_t first = 0; first + 1 < tokens.size(); first += window) {
    ArrayRef<int32_t> own = tokens.drop_front(first).take_front(window + 1);
    sequences.push_back({own.vec(), own.size() - 1});
  }
  return Error::success();
}

/// As many sequences as --max-tokens needs, the last of which may be shorter.
Error Session::sequencesToWrite() {
  constexpr int64_t usualTokens = 128;
  const int64_t window = command.window ? command.window : std::min(context(), usualTokens);
  const int64_t all = command.maxTokens ? command.maxTokens : usualBatch * window;
  if (all > mostSequences * window)
    return makeUsageError("--max-tokens: expected at most " + Twine(mostSequences * window) +
                          " tokens of sequences that A writes, got " + Twine(all) + "; give a --text");
  for (int64_t left = all; left > 0; left -= window)
    sequences.push_back({{a.source->beginToken().value_or(0)}, 1, static_cast<size_t>(std::min(left, window))});
  return Error::success();
}

Error Session::makeSequences() {
  if (a.file || b.file)
    return sequencesOfFile(a.file ? *a.file : *b.file);
  if (command.window > context())
    return makeUsageError("--window: expected at most the context of " + Twine(context()) + " tokens, got " +
                          Twine(command.window));
  if (!command.text.empty())
    return sequencesOfText();
  return sequencesToWrite();
}

Error Session::openEngines() {
  options.batch = std::min<int64_t>(usualBatch, static_cast<int64_t>(sequences.size()));
  for (OpenedSide *side : {&a, &b}) {
    const PlanDim *dim =
        side->source && side->source->plan ? side->source->plan->findDim(side->source->plan->entries.batch) : nullptr;
    if (dim)
      options.batch = std::min(options.batch, dim->max);
  }
  for (OpenedSide *side : {&a, &b}) {
    side->side.file = side->file ? &*side->file : nullptr;
    if (!side->source)
      continue;
    side->options.batch = options.batch;
    side->options.onKernelCompiled = [this](size_t done, size_t all, StringRef kernel) {
      progress.show(done, all, kernel);
    };
    if (Error error = openEngine(*side->source, side->options).moveInto(side->engine))
      return error;
    side->side.engine = side->engine.get();
  }
  return Error::success();
}

Expected<Comparison> Session::compare() {
  if (Error error = openSide(command.a, command.deviceA.empty() ? command.device : command.deviceA, {}, a))
    return error;
  if (Error error = openSide(command.b, command.device, command.pipeline, b))
    return error;
  if (a.vocabulary() != b.vocabulary())
    return makeFileError(command.b, "expected the vocabulary of A, " + Twine(a.vocabulary()) + " tokens, got " +
                                        Twine(b.vocabulary()));
  if (Error error = makeSequences())
    return error;
  if (Error error = openEngines())
    return error;
  options.onStep = [&](size_t done, size_t all, const LogitStatistics &sofar) {
    progress.show(done, all,
                  formatv("KL divergence {0:E2} +/- {1:E2}, agreement {2:F4}", sofar.meanDivergence(),
                          sofar.divergenceError(), sofar.agreement())
                      .str());
  };
  return compareModels(a.side, b.side, sequences, options);
}

json::Object perplexityJson(StringRef name, const PerplexityResult &result) {
  return json::Object{{"model", json::fixUTF8(name)},
                      {"perplexity", jsonQuantity(result.perplexity())},
                      {"standard_error", jsonQuantity(result.standardError())}};
}

void printJson(const CompareCommand &command, const Comparison &result) {
  const LogitStatistics &logits = result.logits;
  json::Array layers;
  for (const LayerDifference &layer : result.layers)
    layers.push_back(json::Object{{"value", layer.value},
                                  {"relative", jsonQuantity(layer.relative())},
                                  {"largest_of_token", jsonQuantity(layer.largestOfToken)}});
  json::Object object{{"tokens", logits.rows()},
                      {"kl_divergence", json::Object{{"mean", jsonQuantity(logits.meanDivergence())},
                                                     {"standard_error", jsonQuantity(logits.divergenceError())},
                                                     {"median", jsonQuantity(logits.divergenceQuantile(0.5))},
                                                     {"p99", jsonQuantity(logits.divergenceQuantile(0.99))},
                                                     {"max", jsonQuantity(logits.divergenceQuantile(1))}}},
                      {"agreement", jsonQuantity(logits.agreement())},
                      {"logit_difference", json::Object{{"largest", jsonQuantity(logits.largest)},
                                                        {"sequence", logits.largestSequence},
                                                        {"token", logits.largestPosition},
                                                        {"id", logits.largestId}}},
                      {"layers", std::move(layers)}};
  if (logits.a.tokensScored > 0) {
    object["a"] = perplexityJson(command.a, logits.a);
    object["b"] = perplexityJson(command.b, logits.b);
  }
  if (result.largestOfScore)
    object["score_difference"] = jsonQuantity(*result.largestOfScore);
  standardOutput() << jsonText(std::move(object)) << '\n';
}

void printText(const Comparison &result) {
  const LogitStatistics &logits = result.logits;
  raw_ostream &os = standardOutput();
  os << formatv("tokens            {0}\n", logits.rows());
  if (logits.a.tokensScored > 0)
    os << formatv("perplexity        A {0:F4} +/- {1:F4}, B {2:F4} +/- {3:F4}\n", logits.a.perplexity(),
                  logits.a.standardError(), logits.b.perplexity(), logits.b.standardError());
  os << formatv("KL divergence     mean {0:E3} +/- {1:E3}, median {2:E3}, 99 % {3:E3}, max {4:E3}\n",
                logits.meanDivergence(), logits.divergenceError(), logits.divergenceQuantile(0.5),
                logits.divergenceQuantile(0.99), logits.divergenceQuantile(1))
     << formatv("same best token   {0:F4}\n", logits.agreement())
     << formatv("logits            largest difference {0:E3}, at sequence {1}, token {2}, id {3}\n", logits.largest,
                logits.largestSequence, logits.largestPosition, logits.largestId);
  if (result.largestOfScore)
    os << formatv("@score            largest difference of a log-probability {0:E3}\n", *result.largestOfScore);
  for (const LayerDifference &layer : result.layers)
    os << formatv("{0,-17} relative difference {1:E3}, largest of a token {2:E3}\n", "%" + layer.value,
                  layer.relative(), layer.largestOfToken);
}

/// Error: a figure beyond a limit of the user's.
Error judge(const CompareCommand &command, const LogitStatistics &logits) {
  auto fail = [&](StringRef flag, StringRef what, double limit, double got) {
    return makeError(flag + ": " + what +
                     formatv(" {0}, got {1}", jsonText(jsonQuantity(limit)), jsonText(jsonQuantity(got))).str());
  };
  if (command.mostDivergence && !(logits.meanDivergence() <= *command.mostDivergence))
    return fail("--max-kl", "expected a mean KL divergence of at most", *command.mostDivergence,
                logits.meanDivergence());
  if (command.leastAgreement && !(logits.agreement() >= *command.leastAgreement))
    return fail("--min-agreement", "expected a share of equal best tokens of at least", *command.leastAgreement,
                logits.agreement());
  return Error::success();
}

} // namespace

Error run(const CompareCommand &command) {
  Expected<Comparison> result = [&] { return Session(command).compare(); }();
  if (!result)
    return result.takeError();
  if (command.json)
    printJson(command, *result);
  else
    printText(*result);
  return judge(command, result->logits);
}

} // namespace kiln
