#include "tools/session/ModelSource.h"

#include "codegen/Generate.h"
#include "formats/ModelFile.h"
#include "ir/Parser.h"
#include "kernels/targets/Target.h"
#include "ops/OpTable.h"
#include "runtime/device/cuda/CudaDevice.h"
#include "runtime/weights/Checkpoint.h"
#include "runtime/weights/RandomCheckpoint.h"
#include "support/Diagnostic.h"
#include "tools/session/DeviceNames.h"
#include "tools/session/PlanOrigin.h"
#include "tools/session/UsageError.h"

namespace kiln {

namespace fs = llvm::sys::fs;

using Reference = ModelRequest::Reference;

PlanModelInfo ModelSource::model() const { return plan ? plan->model : modelInfo(*module); }

std::optional<int32_t> ModelSource::beginToken() const {
  if (std::optional<int32_t> token = tokenizer ? tokenizer->endOfText() : std::nullopt)
    return token;
  std::vector<int64_t> eosTokens = model().eosTokens;
  return eosTokens.empty() ? std::nullopt : std::optional(static_cast<int32_t>(eosTokens.front()));
}

/// Reads the plan and, if needed, its IR.
static Error openPlan(const ModelRequest &request, ModelSource &source) {
  Expected<Plan> plan = readPlan(request.model);
  if (!plan)
    return plan.takeError();
  if (Error error = checkForPlan(request.pipeline, *plan, request.model))
    return error;
  source.plan = std::move(*plan);
  if (request.reference == Reference::Unused)
    return Error::success();
  Expected<const SourceFile *> file = source.sources->open(request.model + "/ir/fused.kiln");
  if (!file)
    return file.takeError();
  return parseModule(*file, *source.sources, opTable()).moveInto(source.module);
}

/// Whether one kernel for all of @decode is of use there. On the emulated device it takes minutes, and all its blocks
/// must be resident.
static Expected<bool> suitsOneKernel(StringRef device, StringRef targetName) {
  Expected<const Target *> target = findTarget(targetName);
  if (!target)
    return target.takeError();
  std::optional<unsigned> ordinal = ordinalOf(device);
  return device.empty() ||
         (ordinal && CudaDevice::multiprocessors(static_cast<int>(*ordinal)) >= (*target)->multiprocessors);
}

static Error compileModel(const ModelRequest &request, ModelSource &source) {
  if (request.reference == Reference::Runs)
    if (Error error = checkForReference(request.pipeline))
      return error;
  Expected<PipelineOptions> pipeline = pipelineOptions(request.pipeline);
  if (!pipeline)
    return pipeline.takeError();
  if (pipeline->decode == "auto") {
    Expected<bool> suits = suitsOneKernel(request.device, pipeline->target);
    if (!suits)
      return suits.takeError();
    if (!*suits)
      pipeline->decode = "graph";
  }
  source.compileOptions.pipeline = std::move(*pipeline);
  // Kernels for few rows are made for the largest batch; powers of two keep the number of different plans small.
  source.compileOptions.build.maxBatch = static_cast<int64_t>(llvm::PowerOf2Ceil(request.batch));
  auto module = compileToStage(request.model, Stage::Fused, source.compileOptions, *source.sources);
  if (!module)
    return module.takeError();
  source.module = std::move(*module);
  bool isText = StringRef(request.model).ends_with(".kiln");
  return isText ? checkForText(request.pipeline, *source.module, request.model) : Error::success();
}

/// The dtype of matrices and of their products, by its name in --dtype.
static StringRef precisionOf(const Module &module) {
  for (const auto &weight : module.weights)
    if (weight->type.rank() == 2 && weight->type.dtype != DType::F32)
      return dtypeName(weight->type.dtype);
  StringRef precision = dtypeName(DType::F32);
  for (const auto &function : module.functions)
    walk(function->body, [&](Op &op) { precision = op.identAttribute("precision", precision); });
  return precision;
}

/// Refuses a model that the reference executor would compute in fp32 in spite of its dtype.
static Error checkPrecision(const ModelRequest &request, const ModelSource &source) {
  if (request.reference != Reference::Runs || precisionOf(*source.module) == dtypeName(DType::F32))
    return Error::success();
  return makeReferenceError(request.model + " is of dtype " + precisionOf(*source.module), "computes in fp32");
}

/// The tensors of which weights are made.
static std::vector<WeightRecipe::Tensor> tensorsOf(const ModelSource &source) {
  std::vector<WeightRecipe::Tensor> all;
  if (source.plan)
    for (const PlanWeight &weight : source.plan->weights)
      llvm::append_range(all, weight.recipe.tensors());
  else
    for (const auto &weight : source.module->weights)
      llvm::append_range(all, weight->recipe->tensors());
  return all;
}

/// Whether weights and vocabulary are those that a plan remembers.
static bool usesOrigin(const ModelRequest &request, const ModelSource &source) {
  return source.plan && source.plan->origin && request.weights.path.empty() && !request.weights.randomSeed;
}

/// Sets source.filesPath. Error: as of checkOrigin.
static Error locateFiles(const ModelRequest &request, ModelSource &source) {
  source.filesPath = !request.weights.path.empty() ? request.weights.path : request.model;
  if (!usesOrigin(request, source))
    return Error::success();
  source.filesPath = originPath(*source.plan->origin, request.model);
  return checkOrigin(*source.plan->origin, request.model);
}

static Expected<std::shared_ptr<const WeightSource>> openWeights(const ModelRequest &request,
                                                                 const ModelSource &source) {
  const WeightOptions &options = request.weights;
  if (options.randomSeed)
    return std::make_shared<RandomCheckpoint>(*options.randomSeed, source.model().layers);
  bool hasOwn = source.plan ? usesOrigin(request, source) && !source.plan->origin->weights.empty()
                            : fs::is_directory(request.model) || isModelFile(request.model);
  if (options.path.empty() && !hasOwn)
    return makeFileError(request.model, "no weights here: give --weights PATH or --random-weights SEED");
  Expected<std::unique_ptr<Checkpoint>> checkpoint = Checkpoint::open(source.filesPath);
  if (!checkpoint)
    return checkpoint.takeError();
  // Before anything runs: every tensor exists, has its shape, and no other tensor exists.
  if (Error error = (*checkpoint)->expectModel(tensorsOf(source)))
    return error;
  return std::shared_ptr<const WeightSource>(std::move(*checkpoint));
}

static Error openTokenizer(ModelSource &source) {
  if (!hasVocabulary(source.filesPath))
    return Error::success();
  Expected<Tokenizer> tokenizer = Tokenizer::load(source.filesPath);
  if (!tokenizer)
    return tokenizer.takeError();
  int64_t vocabulary = source.model().vocabulary;
  if (tokenizer->vocabSize() > vocabulary)
    return makeFileError(source.filesPath, "the vocabulary has " + Twine(tokenizer->vocabSize()) +
                                               " tokens, the model only " + Twine(vocabulary));
  source.tokenizer = std::move(*tokenizer);
  return Error::success();
}

Expected<ModelSource> openModel(const ModelRequest &request) {
  ModelSource source;
  source.modelPath = request.model;
  source.randomSeed = request.weights.randomSeed;
  source.sources = std::make_unique<SourceManager>();
  if (Error error = isPlan(request.model) ? openPlan(request, source) : compileModel(request, source))
    return error;
  if (Error error = checkPrecision(request, source))
    return error;
  if (Error error = locateFiles(request, source))
    return error;
  if (Error error = openWeights(request, source).moveInto(source.weights))
    return error;
  if (Error error = openTokenizer(source))
    return error;
  return source;
}

} // namespace kiln
