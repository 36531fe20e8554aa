#include "tools/kiln/run/RunSession.h"

#include "tools/session/UsageError.h"

#include "support/Trace.h"

namespace kiln {

/// The sequences that run side by side. The reference executor evaluates them one after the other.
static int64_t batchOf(const RunCommand &command, StringRef device) {
  constexpr int64_t usualBatch = 64;
  if (command.lines.input.empty())
    return command.prompts.count() * command.samples;
  return command.lines.batch.value_or(device == "cpu" ? 1 : usualBatch);
}

/// The device and the checks on it. Error: a UsageError about an option that the reference executor does not support.
static Expected<EngineOptions> engineOptions(const RunCommand &command, Trace *trace) {
  EngineOptions options;
  options.device = resolveDevice(command.device);
  options.batch = batchOf(command, options.device);
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

Expected<std::unique_ptr<RunSession>> RunSession::open(const RunCommand &command, Trace *trace) {
  Expected<EngineOptions> onDevice = engineOptions(command, trace);
  if (!onDevice)
    return onDevice.takeError();
  PipelineChoices pipeline = command.pipeline;
  prepareForDraft(draftRequest(command), *onDevice, pipeline);
  ModelRequest request{.model = command.model,
                       .weights = command.weights,
                       .pipeline = pipeline,
                       .batch = onDevice->batch,
                       .reference = referenceUse(*onDevice)};
  Expected<ModelSource> source = traced(trace, TraceLane::Host, "open the model", [&] { return openModel(request); });
  if (!source)
    return source.takeError();
  auto session = std::make_unique<RunSession>(RunSession{std::move(*onDevice), std::move(*source)});
  // A plan may be for fewer sequences than lines usually have side by side.
  const std::optional<Plan> &plan = session->source.plan;
  const PlanDim *batch = plan ? plan->findDim(plan->entries.batch) : nullptr;
  if (batch && !command.lines.input.empty() && !command.lines.batch)
    session->onDevice.batch = std::min(session->onDevice.batch, batch->max);
  return session;
}

Error RunSession::openDevice(const RunCommand &command) {
  progress.emplace(command.quiet);
  onDevice.onKernelCompiled = [this](size_t done, size_t all, StringRef kernel) { progress->show(done, all, kernel); };
  if (!command.draft.what.empty() && onDevice.device != "cpu") {
    if (Error error = kiln::openDevice(onDevice.device, onDevice).moveInto(device))
      return error;
    onDevice.opened = device.get();
  }
  if (Error error = openDraft(draftRequest(command), source, onDevice).moveInto(draft))
    return error;
  auto opened =
      traced(onDevice.trace, TraceLane::Host, "open the device", [&] { return openEngine(source, onDevice); });
  progress->finish();
  return std::move(opened).moveInto(engine);
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
