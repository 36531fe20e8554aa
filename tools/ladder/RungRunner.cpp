#include "tools/ladder/RungRunner.h"

#include "support/files/File.h"
#include "tools/session/ReferenceModel.h"
#include "tools/session/Tolerance.h"

#include "formats/ModelFile.h"
#include "ops/Region.h"
#include "strategies/Strategy.h"
#include "support/Diagnostic.h"

#include <cmath>

namespace kiln {

const Block &promptSteps(const Module &module) { return module.findFunction(Entry::Prefill)->body; }

bool isRounded(const Op &step) { return anchor(step)->identAttribute("precision", "f32") == "tf32"; }

namespace {

bool anyRounded(const Module &module) {
  return llvm::any_of(promptSteps(module).ops(), [](const auto &op) { return isRounded(*op); });
}

int64_t contextOf(const Module &module) { return module.intAttribute("context"); }

/// Removes a directory when the scope ends.
auto removing(StringRef directory) {
  return llvm::make_scope_exit([path = directory.str()] { llvm::sys::fs::remove_directories(path); });
}

} // namespace

//===----------------------------------------------------------------------===//
// Opening
//===----------------------------------------------------------------------===//

Expected<std::unique_ptr<RungRunner>> RungRunner::create(const LadderOptions &command) {
  std::unique_ptr<RungRunner> runner(new RungRunner(command));
  Expected<const Target *> target = findTarget(command.target);
  if (!target)
    return target.takeError();
  runner->theTarget = *target;
  WeightOptions weights = command.weights;
  bool hasOwn = llvm::sys::fs::is_directory(command.model) || isModelFile(command.model);
  if (weights.path.empty() && !weights.randomSeed && !hasOwn)
    weights.randomSeed = 1;
  Expected<ModelSource> source = openModel({.model = command.model, .weights = weights});
  if (!source)
    return source.takeError();
  runner->modelContext = contextOf(*source->module);
  runner->vocabulary = source->module->intAttribute("vocab", 1);
  runner->weights = std::make_unique<KeptWeights>(source->weights);
  if (!command.scored.empty()) {
    Expected<ModelSource> scored = openModel({.model = command.scored});
    if (!scored)
      return scored.takeError();
    if (!scored->tokenizer)
      return makeFileError(scored->filesPath, "--eval: no vocabulary here");
    Expected<std::string> text = readInput(command.text);
    if (!text)
      return text.takeError();
    runner->text = scored->tokenizer->encode(*text);
    runner->scored = std::move(*scored);
  }
  EngineOptions options;
  options.checkAccesses = false;
  options.needsKernels = true;
  for (StringRef device : command.devices) {
    auto opened = openDevice(device, options);
    if (!opened)
      return opened.takeError();
    (runner->device ? runner->others.emplace_back() : runner->device) = std::move(*opened);
  }
  if (Error error = runner->device->makeCurrent())
    return error;
  runner->name = runner->device->name();
  runner->timed = runner->device->isTimed();
  Expected<KernelTimer> timer = KernelTimer::create(*runner->device);
  if (!timer)
    return timer.takeError();
  runner->timer.emplace(std::move(*timer));
  SmallString<128> directory;
  llvm::sys::path::system_temp_directory(/*ErasedOnReboot=*/true, directory);
  llvm::sys::path::append(directory, "kiln-ladder");
  sweepLeftovers(directory);
  Expected<Temporary> work = Temporary::create(directory, Temporary::Kind::Directory);
  if (!work)
    return work.takeError();
  runner->work.emplace(std::move(*work));
  return runner;
}

//===----------------------------------------------------------------------===//
// Compiling and loading
//===----------------------------------------------------------------------===//

std::vector<std::vector<int32_t>> RungRunner::promptsOf(const LadderPart &part) const {
  std::vector<int32_t> all = sampleIds(part.batch * part.length, vocabulary);
  std::vector<std::vector<int32_t>> prompts;
  for (int64_t row = 0; row < part.batch; ++row) {
    auto ids = ArrayRef(all).slice(row * part.length, part.length);
    prompts.emplace_back(ids.begin(), ids.end());
  }
  return prompts;
}

/// The number of tokens that a generation makes; 0 for other parts.
int64_t RungRunner::newTokens(const LadderPart &part) const {
  constexpr int64_t most = 50;
  return part.timed == Timed::Generation ? std::min(most, modelContext - part.length) : 0;
}

int64_t RungRunner::mostTokens(const LadderPart &part) const { return part.length + newTokens(part); }

Expected<CompiledPlan> RungRunner::compile(const CompileRequest &request) {
  return compileTo(formatv("{0}/{1}.plan", work->path(), plans++).str(), request);
}

Expected<CompiledPlan> RungRunner::compile(const LadderPart &part, const Rung &rung) {
  CompileRequest request{command.model, {}, {Entry::Prefill}, part.batch, mostTokens(part)};
  request.options.pipeline.target = command.target;
  if (Error error = applyStrategies(part.strategyOf(rung), request.options.pipeline))
    return error;
  request.options.build = {part.batch, part.layers, part.positions};
  if (part.timed == Timed::Generation)
    request.entries.insert(request.entries.end(), {Entry::Decode, Entry::Sample, Entry::Generate});
  return compile(request);
}

Expected<RungRunner::Loaded> RungRunner::load(const CompiledPlan &compiled, const WeightSource &source,
                                              Executor::Options capacity) {
  llvm::erase_if(capacity.entries, [&](Entry entry) { return !compiled.plan.entries.has(entry); });
  if (Error error = PlanModel::check(compiled.plan, capacity.entries))
    return error;
  auto executor = Executor::create(*device, compiled.plan, {compiled.directory, ""}, source, capacity);
  if (!executor)
    return executor.takeError();
  Loaded loaded{*compiled.module, std::move(*executor), nullptr};
  loaded.model = std::make_unique<PlanModel>(*loaded.executor);
  return loaded;
}

//===----------------------------------------------------------------------===//
// Checking
//===----------------------------------------------------------------------===//

Expected<const Logits *> RungRunner::reference(const LadderPart &part, const Rung &rung) {
  PipelineOptions pipeline;
  if (rung.isOtherModel)
    if (Error error = applyStrategies(rung.strategy, pipeline))
      return error;
  pipeline.dtype = "f32";
  std::string key = formatv("{0} {1} {2} {3} {4}", part.batch, part.length, part.layers.value_or(0),
                            part.positions.value_or(0), rung.isOtherModel ? rung.strategy : "");
  auto [it, isNew] = references.try_emplace(key);
  if (!isNew)
    return &it->second;
  ModelSource source;
  source.sources = std::make_unique<SourceManager>();
  CompileOptions options{pipeline, {part.batch, part.layers, part.positions}, ""};
  auto module = compileToStage(command.model, Stage::Fused, options, *source.sources);
  if (!module)
    return module.takeError();
  source.module = std::move(*module);
  source.weights = std::shared_ptr<const WeightSource>(weights.get(), [](const WeightSource *) {});
  it->second.resize(part.batch);
  ReferenceModel model(source);
  if (Error error = model.prefill(promptsOf(part), it->second))
    return error;
  return &it->second;
}

Error RungRunner::compare(Loaded &loaded, const LadderPart &part, const Logits &expected, LogitError &error) {
  Logits actual(part.batch);
  if (Error failed = loaded.model->prefill(promptsOf(part), actual))
    return failed;
  addDifferences(expected, actual, error);
  double largest = 0;
  for (ArrayRef<float> want : expected)
    largest = std::max(largest, largestSize(want));
  error.allowed = largest * logitTolerance(loaded.executor->plan().dtype, anyRounded(loaded.module), ModelSize::Gpt2);
  return Error::success();
}

void RungRunner::addDifferences(const Logits &expected, const Logits &actual, LogitError &error) {
  double squares = 0;
  size_t count = 0;
  for (const auto &[want, got] : llvm::zip(expected, actual)) {
    error.largest = std::max(error.largest, largestDifference(want, got));
    for (const auto &[a, b] : llvm::zip(want, got))
      squares += (static_cast<double>(a) - b) * (static_cast<double>(a) - b);
    count += want.size();
  }
  error.rootMeanSquare = std::max(error.rootMeanSquare, std::sqrt(squares / static_cast<double>(count)));
}

Expected<double> RungRunner::perplexity(const LadderPart &part, const Rung &rung) {
  int64_t context = contextOf(*scored->module);
  CompileRequest request{command.scored, {}, {Entry::Score}, 1, context};
  request.options.pipeline.target = command.target;
  if (Error error = applyStrategies(part.strategyOf(rung), request.options.pipeline))
    return error;
  request.options.build.maxBatch = 1;
  Expected<CompiledPlan> compiled = compile(request);
  if (!compiled)
    return compiled.takeError();
  auto remove = removing(compiled->directory);
  Expected<Loaded> loaded = load(*compiled, *scored->weights, {1, context, {Entry::Score}});
  if (!loaded)
    return loaded.takeError();
  Expected<PerplexityResult> result = evaluatePerplexity(*loaded->model, text, {});
  if (!result)
    return result.takeError();
  return result->perplexity();
}

//===----------------------------------------------------------------------===//
// A rung
//===----------------------------------------------------------------------===//

Expected<RungResult> RungRunner::tryRung(const LadderPart &part, const Rung &rung, const CompiledPlan &compiled) {
  RungResult result;
  Expected<const Logits *> expected = reference(part, rung);
  if (!expected)
    return expected.takeError();
  {
    Expected<Loaded> loaded = load(compiled, *weights, {part.batch, mostTokens(part), {Entry::Prefill, Entry::Decode}});
    if (!loaded)
      return loaded.takeError();
    if (Error error = compare(*loaded, part, **expected, result.error))
      return error;
    if (Error error = time(*loaded, part, result))
      return error;
  }
  if (part.timed == Timed::Batch)
    if (Error error = timeBatch(compiled, part, rung, **expected, result))
      return error;
  if (part.timed == Timed::FirstToken)
    if (Error error = timeFirstToken(compiled, part, result))
      return error;
  if (scored && part.wantsPerplexity) {
    Expected<double> found = perplexity(part, rung);
    if (!found)
      return found.takeError();
    result.perplexity = *found;
  }
  return result;
}

RungResult RungRunner::run(const LadderPart &part, const Rung &rung, Expected<CompiledPlan> compiled) {
  RungResult failed;
  if (!compiled) {
    failed.failure = llvm::toString(compiled.takeError());
    return failed;
  }
  auto remove = removing(compiled->directory);
  Expected<RungResult> result = tryRung(part, rung, *compiled);
  if (result)
    return *result;
  failed.failure = llvm::toString(result.takeError());
  return failed;
}

} // namespace kiln
