#include "tools/kiln/OpenDraft.h"

#include "formats/ModelFile.h"
#include "support/Diagnostic.h"
#include "tools/session/UsageError.h"

namespace kiln {

DraftLength DraftRequest::length() const {
  int64_t usual = options.isAuto ? mostAutoDraftTokens : usualDraftTokens;
  return {options.tokens.value_or(usual), options.isAuto};
}

void prepareForDraft(const DraftRequest &request, EngineOptions &engine, PipelineChoices &pipeline) {
  // The reference executor checks guesses one after the other, by @decode.
  if (request.options.what.empty() || engine.device == "cpu")
    return;
  engine.entries.push_back(Entry::Verify);
  if (!isPlan(request.model))
    pipeline.draftTokens = request.length().most;
}

/// Limits the guesses to what a plan checks. Error: a UsageError.
static Error fitToPlan(const DraftRequest &request, const Plan &plan, DraftLength &length) {
  std::string again = "; compile the model again with --draft-tokens " + std::to_string(length.most);
  if (!plan.entries.verify)
    return makeUsageError("--draft: " + request.model + " is a plan that cannot check guesses" + again);
  int64_t most = plan.verifyTokens() - 1;
  if (request.options.tokens && *request.options.tokens > most)
    return makeUsageError("--draft-tokens: " + request.model + " is a plan that checks at most " + Twine(most) +
                          " guesses, got " + Twine(*request.options.tokens) + again);
  length.most = std::min(length.most, most);
  return Error::success();
}

/// Opens a model that guesses.
static Error openModelDraft(const DraftRequest &request, const ModelSource &target, const EngineOptions &engine,
                            OpenedDraft &opened) {
  const DraftOptions &options = request.options;
  EngineOptions own = engine;
  own.entries = {Entry::Prefill, Entry::Decode};
  own.checkReference = false;
  own.kernelsFrom.clear();
  own.trace = nullptr; // its uploads and kernels would overlap those of the model
  bool hasWeights = !options.weights.empty() || isModelFile(options.what) ||
                    (llvm::sys::fs::is_directory(options.what) && !isPlan(options.what));
  if (!hasWeights && !request.randomSeed)
    return makeUsageError("--draft: no weights of " + options.what + ": give --draft-weights PATH");
  Expected<ModelSource> source =
      openModel({.model = options.what,
                 .weights = {.path = options.weights, .randomSeed = hasWeights ? std::nullopt : request.randomSeed},
                 .pipeline = {.dtype = isPlan(options.what) ? std::nullopt : request.dtype},
                 .batch = own.batch,
                 .device = own.device,
                 .reference = referenceUse(own)});
  if (!source)
    return source.takeError();
  int64_t wanted = target.model().vocabulary, got = source->model().vocabulary;
  if (wanted != got)
    return makeFileError(options.what, "expected a draft with the model's vocabulary of " + Twine(wanted) +
                                           " tokens, got " + Twine(got));
  opened.source = std::make_unique<ModelSource>(std::move(*source));
  auto draft = openEngine(*opened.source, own);
  if (!draft)
    return draft.takeError();
  opened.engine = std::move(*draft);
  return Error::success();
}

Expected<OpenedDraft> openDraft(const DraftRequest &request, const ModelSource &source, const EngineOptions &engine) {
  OpenedDraft opened;
  if (request.options.what.empty())
    return opened;
  opened.length = request.length();
  if (source.plan && engine.device != "cpu")
    if (Error error = fitToPlan(request, *source.plan, opened.length))
      return error;
  if (request.options.what == "ngram") {
    opened.draft = std::make_unique<NgramDraft>();
    return opened;
  }
  if (Error error = openModelDraft(request, source, engine, opened))
    return error;
  SamplingParams sampling = request.sampling;
  if (sampling.temperature == 0)
    sampling = {.greedy = true};
  opened.draft = std::make_unique<ModelDraft>(opened.engine->model(), sampling, opened.engine->executor());
  return opened;
}

} // namespace kiln
