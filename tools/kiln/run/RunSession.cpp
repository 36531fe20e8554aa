#include "tools/kiln/run/RunSession.h"

#include "tools/session/UsageError.h"

#include "support/process/Trace.h"

namespace kiln {

/// The sequences that run side by side on each of some copies of the model. The reference executor evaluates them one
/// after the other.
static int64_t batchOf(const RunCommand &command, StringRef device, size_t copies) {
  constexpr int64_t usualBatch = 64;
  if (command.lines.input.empty())
    return static_cast<int64_t>(
        llvm::divideCeil(static_cast<uint64_t>(command.prompts.count() * command.samples), copies));
  return command.lines.batch.value_or(device == "cpu" ? 1 : usualBatch);
}

/// Each device and the checks on it. Error: a UsageError about an option that the reference executor does not support.
static Expected<EngineOptions> engineOptions(const RunCommand &command, ArrayRef<std::string> devices, Trace *trace) {
  EngineOptions options;
  options.device = devices.front();
  // The devices of ranks have one copy together.
  options.batch = batchOf(command, devices.front(), command.pipeline.ranks.value_or(1) > 1 ? 1 : devices.size());
  options.entries = {Entry::Prefill, Entry::Decode};
  options.checkReference = command.check == "reference";
  options.checkAccesses = command.check != "none";
  options.schedule = command.schedule;
  options.kernelsFrom = command.kernelsFrom;
  options.trace = trace;
  options.traceKernels = command.traceKernels;
  if (options.device == "cpu" && options.checkReference)
    return makeReferenceError("--check reference", "is what steps would be compared with");
  if (options.device == "cpu" && !options.kernelsFrom.empty())
    return makeReferenceError("--kernels-from", "runs no kernels");
  if (options.device == "cpu" && options.traceKernels)
    return makeReferenceError("--trace-kernels", "runs no kernels");
  return options;
}

static DraftRequest draftRequest(const RunCommand &command) {
  return {.options = command.draft,
          .model = command.model,
          .dtype = command.pipeline.dtype,
          .sampling = command.sequence.sampling,
          .randomSeed = std::nullopt};
}

/// Makes the devices those of a model's ranks, which share all sequences. Error: as of resolveDevices; a UsageError
/// about a draft.
static Error useRanks(const RunCommand &command, int64_t ranks, std::vector<std::string> &devices,
                      EngineOptions &onDevice) {
  if (Error error =
          onDevice.group ? checkRanks(ranks, *onDevice.group) : resolveDevices(command.device, ranks).moveInto(devices))
    return error;
  if (!command.draft.what.empty() && devices.front() != "cpu")
    return makeUsageError("--draft: expected a model on one GPU, got one that is split among " + Twine(ranks));
  onDevice.batch = batchOf(command, devices.front(), /*copies=*/1);
  return Error::success();
}

Expected<std::unique_ptr<RunSession>> RunSession::open(const RunCommand &command, Trace *trace, RankGroup *group) {
  Expected<std::vector<std::string>> resolved = resolveDevices(command.device, group);
  if (!resolved)
    return resolved.takeError();
  std::vector<std::string> devices = std::move(*resolved);
  Expected<EngineOptions> onDevice = engineOptions(command, devices, trace);
  if (!onDevice)
    return onDevice.takeError();
  onDevice->group = group;
  PipelineChoices pipeline = command.pipeline;
  prepareForDraft(draftRequest(command), *onDevice, pipeline);
  ModelRequest request{.model = command.model,
                       .weights = command.weights,
                       .pipeline = pipeline,
                       .batch = onDevice->batch,
                       .device = onDevice->device,
                       .reference = referenceUse(*onDevice)};
  Expected<ModelSource> source = traced(trace, TraceLane::Host, "open the model", [&] { return openModel(request); });
  if (!source)
    return source.takeError();
  if (source->ranks() > 1 || group) {
    if (Error error = useRanks(command, source->ranks(), devices, *onDevice))
      return error;
  }
  auto session = std::make_unique<RunSession>(RunSession{std::move(devices), std::move(*onDevice), std::move(*source)});
  // A plan may be for fewer sequences than lines usually have side by side.
  const std::optional<Plan> &plan = session->source.plan;
  const PlanDim *batch = plan ? plan->findDim(plan->entries.batch) : nullptr;
  if (batch && !command.lines.input.empty() && !command.lines.batch)
    session->onDevice.batch = std::min(session->onDevice.batch, batch->max);
  return session;
}

std::vector<LanguageModel *> RunSession::models() const {
  std::vector<LanguageModel *> models;
  for (const auto &engine : engines)
    models.push_back(&engine->model());
  return models;
}

Error RunSession::check(const RunCommand &command, ArrayRef<std::vector<int32_t>> prompts) const {
  const PlanModelInfo model = source.model();
  SequenceOptions options = sequenceOptions(command);
  options.sampling = settled(options.sampling);
  if (Error error = checkSequenceOptions(options, model.vocabulary, model.context, tokenizer() != nullptr))
    return asUsageError(std::move(error));
  for (const auto &[i, prompt] : llvm::enumerate(prompts))
    if (std::string wrong = promptProblem(prompt, options, model.vocabulary, model.context); !wrong.empty())
      return makeError("prompt " + Twine(i + 1) + ": " + wrong);
  return Error::success();
}

Error RunSession::openDevices(const RunCommand &command) {
  progress.emplace(command.quiet);
  onDevice.onKernelCompiled = [this](size_t done, size_t all, StringRef kernel) { progress->show(done, all, kernel); };
  if (!command.draft.what.empty() && onDevice.device != "cpu") {
    if (Error error = kiln::openDevice(onDevice.device, onDevice).moveInto(device))
      return error;
    onDevice.opened = device.get();
  }
  if (Error error = openDraft(draftRequest(command), source, onDevice).moveInto(draft))
    return error;
  TraceScope span(onDevice.trace, TraceLane::Host, "open the device");
  auto finish = llvm::make_scope_exit([&] { progress->finish(); });
  return openEngines(source, onDevice, devices).moveInto(engines);
}

SamplingParams settled(const SamplingParams &params) {
  return params.temperature == 0 || params.greedy ? SamplingParams{.greedy = true} : params;
}

SequenceOptions RunSession::sequenceOptions(const RunCommand &command) const {
  SequenceOptions options = command.sequence;
  options.overflow = *parseOverflowPolicy(command.overflow.value_or(command.interactive ? "slide" : "error"));
  for (int64_t id : source.model().eosTokens)
    options.eosIds.push_back(static_cast<int32_t>(id));
  return options;
}

JobOptions RunSession::jobOptions(const RunCommand &command) const {
  JobOptions options;
  options.keepLogits = command.wantLogits;
  options.draft = draft.draft.get();
  options.draftLength = draft.length;
  options.trace = onDevice.trace;
  return options;
}

} // namespace kiln
