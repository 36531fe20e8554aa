#include "tools/kiln/SpeculationBench.h"
#include "tools/kiln/OpenDraft.h"

#include "runtime/measure/SpeculationBenchmark.h"
#include "support/process/Process.h"
#include "support/text/Json.h"
#include "tools/session/UsageError.h"

namespace kiln {

namespace {

/// New tokens of each sequence in a sample, if they fit into the context; and the least.
constexpr int64_t sampleTokens = 256, leastTokens = 2;

/// Generation with one draft length and rate of right guesses.
struct SpeculationRow {
  SpeculationShape shape;
  DraftLength length;
  double acceptance;
  SpeculationTimes times;
  double plainSeconds;            ///< for a token without guesses
  std::optional<PassTimes> parts; ///< of a pass with a fixed number of guesses, on a device with times

  double speedUp() const { return plainSeconds / medianOf(times.seconds); }
  std::string guesses() const { return length.isAuto ? "auto" : std::to_string(length.most); }
};

DraftLength lengthOf(StringRef text) {
  int64_t count = 0;
  return text.getAsInteger(10, count) ? DraftLength{mostAutoDraftTokens, true} : DraftLength{count, false};
}

void printTable(raw_ostream &os, ArrayRef<SpeculationRow> rows) {
  os << "| sequences | position | guesses | right | tokens a pass | µs a token | without (µs) | speed-up | a guess "
        "(steps) | a check (steps) |\n|---|---|---|---|---|---|---|---|---|---|\n";
  for (const SpeculationRow &row : rows) {
    os << formatv("| {0} | {1} | {2} | {3:F2} | {4:F2} |", row.shape.batch, row.shape.position, row.guesses(),
                  row.acceptance, row.times.tokensPerPass());
    if (!row.parts) {
      os << " | | | | |\n";
      continue;
    }
    os << formatv(" {0:F1} | {1:F1} | {2:F2} |", medianOf(row.times.seconds) * 1e6, row.plainSeconds * 1e6,
                  row.speedUp());
    double plain = medianOf(row.parts->plain);
    os << formatv(" {0:F3} | {1:F3} |\n", medianOf(row.parts->draft) / static_cast<double>(row.length.most) / plain,
                  medianOf(row.parts->check) / plain);
  }
}

json::Array samplesOf(ArrayRef<double> seconds) { return json::Array(llvm::map_range(seconds, jsonQuantity)); }

json::Object toJson(const SpeculationRow &row) {
  json::Object object{{"batch", row.shape.batch},
                      {"position", row.shape.position},
                      {"new_tokens", row.shape.newTokens},
                      {"draft_tokens", row.guesses()},
                      {"acceptance", row.acceptance},
                      {"tokens_per_pass", jsonQuantity(row.times.tokensPerPass())},
                      {"passes", row.times.counts.passes},
                      {"drafted_by_place", json::Array(row.times.counts.drafted)},
                      {"accepted_by_place", json::Array(row.times.counts.accepted)}};
  if (!row.parts)
    return object;
  object["median_us"] = jsonQuantity(medianOf(row.times.seconds) * 1e6);
  object["plain_median_us"] = jsonQuantity(row.plainSeconds * 1e6);
  object["speed_up"] = jsonQuantity(row.speedUp());
  object["samples_s"] = samplesOf(row.times.seconds);
  object["plain_step_s"] = samplesOf(row.parts->plain);
  object["guesses_s"] = samplesOf(row.parts->draft);
  object["check_s"] = samplesOf(row.parts->check);
  return object;
}

/// What all rows have in common.
struct Heading {
  std::string device, model;
  DType dtype;
};

void print(const BenchCommand &command, ArrayRef<SpeculationRow> rows, const Heading &heading) {
  raw_ostream &os = standardOutput();
  if (command.format == "json") {
    json::Array list;
    for (const SpeculationRow &row : rows)
      list.push_back(toJson(row));
    os << jsonText(json::Object{{"device", heading.device},
                                {"model", heading.model},
                                {"dtype", dtypeName(heading.dtype)},
                                {"draft", command.draft.what},
                                {"rows", std::move(list)}})
       << '\n';
    return;
  }
  os << heading.model << ", " << dtypeName(heading.dtype) << ", guesses of " << command.draft.what << ", on "
     << heading.device << "\n\n";
  printTable(os, rows);
}

/// The model and the draft on a device, for one number of guesses: a plan checks just as many.
struct Opened {
  std::unique_ptr<Device> device;
  OpenedDraft draft;
  std::unique_ptr<ModelSource> source;
  std::unique_ptr<Engine> engine;
};

Expected<Opened> open(const BenchCommand &command, const DraftLength &length, EngineOptions options) {
  DraftRequest request{.options = command.draft,
                       .model = command.model,
                       .dtype = command.pipeline.dtype,
                       .sampling = {.greedy = true},
                       .randomSeed = 1};
  request.options.tokens = length.most;
  request.options.isAuto = length.isAuto;
  PipelineChoices pipeline = command.pipeline;
  prepareForDraft(request, options, pipeline);
  Expected<ModelSource> source = openModel({.model = command.model,
                                            .weights = command.weights,
                                            .pipeline = pipeline,
                                            .batch = options.batch,
                                            .device = options.device,
                                            .reference = referenceUse(options)});
  if (!source)
    return source.takeError();
  int64_t position = *llvm::max_element(command.lengths), context = source->model().context;
  if (position < 1 || position + leastTokens > context)
    return makeUsageError("--length: expected prompts of 1 to " + Twine(context - leastTokens) + " tokens, got " +
                          Twine(position));
  Opened opened;
  opened.source = std::make_unique<ModelSource>(std::move(*source));
  if (Error error = openDevice(options.device, options).moveInto(opened.device))
    return error;
  options.opened = opened.device.get();
  if (Error error = openDraft(request, *opened.source, options).moveInto(opened.draft))
    return error;
  if (Error error = openEngine(*opened.source, options).moveInto(opened.engine))
    return error;
  return opened;
}

/// All rows of one number of guesses, batch and position.
Error measureShape(const BenchCommand &command, Opened &opened, const SpeculationShape &shape,
                   std::vector<SpeculationRow> &rows) {
  bool isTimed = opened.device->isTimed();
  const DraftLength &length = opened.draft.length;
  Draft &draft = *opened.draft.draft;
  SpeculationBenchmark benchmark(opened.engine->model(), *opened.engine->executor(), shape,
                                 isTimed ? command.options.samples : 1);
  Expected<SpeculationTimes> plain = benchmark.timePlain();
  if (!plain)
    return plain.takeError();
  std::optional<PassTimes> parts;
  if (isTimed)
    if (Error error = benchmark.timePass(draft, length.most).moveInto(parts.emplace()))
      return error;
  for (double acceptance : command.acceptances) {
    Expected<SpeculationTimes> times = benchmark.time(draft, length, acceptance);
    if (!times)
      return times.takeError();
    rows.push_back({shape, length, acceptance, std::move(*times), medianOf(plain->seconds), parts});
  }
  return Error::success();
}

} // namespace

Error benchSpeculation(const BenchCommand &command) {
  EngineOptions options;
  if (Error error = resolveKernelDevice("kiln bench", command.device).moveInto(options.device))
    return error;
  options.batch = *llvm::max_element(command.batches);
  options.entries = {Entry::Prefill, Entry::Decode};
  options.needsKernels = true;
  std::vector<SpeculationRow> rows;
  Heading heading;
  for (StringRef tokens : command.draftTokens) {
    Expected<Opened> opened = open(command, lengthOf(tokens), options);
    if (!opened)
      return opened.takeError();
    const Plan &plan = opened->engine->executor()->plan();
    heading = {opened->device->name(), plan.model.name, plan.dtype};
    for (int64_t batch : command.batches)
      for (int64_t position : command.lengths)
        if (Error error = measureShape(command, *opened,
                                       {batch, position, std::min(sampleTokens, plan.model.context - position)}, rows))
          return error;
  }
  print(command, rows, heading);
  return Error::success();
}

} // namespace kiln
