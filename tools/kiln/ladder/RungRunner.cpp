#include "RungRunner.h"

#include "../Input.h"
#include "../ReferenceModel.h"

#include "kernels/Occupancy.h"
#include "ops/Region.h"
#include "runtime/Generator.h"
#include "runtime/PlanModel.h"
#include "runtime/UncachedModel.h"
#include "strategies/Strategy.h"
#include "support/Diagnostic.h"

#include <chrono>
#include <cmath>

namespace kiln {

/// A plan on the device. Members go in order: the model uses the executor.
struct RungRunner::Loaded {
  std::unique_ptr<SourceManager> sources;
  std::unique_ptr<Module> module;
  std::unique_ptr<Executor> executor;
  std::unique_ptr<PlanModel> model;
};

namespace {

using Seconds = std::chrono::duration<double>;

constexpr int64_t mostNewTokens = 50; ///< of a generation
constexpr int wholeRuns = 3;          ///< of what is timed from its start to its end

/// Prompts of no meaning, as SampleCall has them.
std::vector<std::vector<int32_t>> promptsOf(const LadderPart &part) {
  SampleCall sample("prefill", part.batch, part.length, 0);
  std::vector<std::vector<int32_t>> prompts;
  for (int64_t row = 0; row < part.batch; ++row) {
    auto ids = ArrayRef(sample.ids).slice(row * part.length, part.length);
    prompts.emplace_back(ids.begin(), ids.end());
  }
  return prompts;
}

bool isRounded(const Op &step) { return anchor(step)->identAttribute("precision", "f32") == "tf32"; }

const Block &promptSteps(const Module &module) { return module.findFunction("prefill")->body; }

bool anyRounded(const Module &module) {
  return llvm::any_of(promptSteps(module).ops(), [](const auto &op) { return isRounded(*op); });
}

/// What logits may be off, as a share of the largest: several times what was seen of GPT-2 124M, and far below what a
/// wrong kernel leaves.
double allowedShare(DType dtype, bool hasRounded) {
  switch (dtype) {
  case DType::BF16:
    return 0.05;
  case DType::F16:
    return 0.01;
  default:
    return hasRounded ? 0.01 : 1e-4;
  }
}

int64_t contextOf(const Module &module) { return module.attributes.find("context")->second.asInt(); }

/// Removes a directory when the scope ends.
auto removing(StringRef directory) {
  return llvm::make_scope_exit([path = directory.str()] { llvm::sys::fs::remove_directories(path); });
}

} // namespace

double RungResult::median() const { return medianOf(seconds); }

//===----------------------------------------------------------------------===//
// Opening
//===----------------------------------------------------------------------===//

RungRunner::~RungRunner() {
  if (!work.empty())
    llvm::sys::fs::remove_directories(work);
}

Expected<std::unique_ptr<RungRunner>> RungRunner::create(const LadderCommand &command) {
  std::unique_ptr<RungRunner> runner(new RungRunner(command));
  Expected<const Target *> target = findTarget(command.target);
  if (!target)
    return target.takeError();
  runner->theTarget = *target;
  WeightOptions weights = command.weights;
  bool isDirectory = llvm::sys::fs::is_directory(command.model);
  if (weights.directory.empty() && !weights.randomSeed && !isDirectory)
    weights.randomSeed = 1;
  Expected<ModelSource> source = openModel(command.model, weights, 1, {});
  if (!source)
    return source.takeError();
  runner->modelContext = contextOf(*source->module);
  runner->weights = std::make_unique<KeptWeights>(source->weights);
  if (!command.scored.empty()) {
    Expected<ModelSource> scored = openModel(command.scored, {}, 1, {});
    if (!scored)
      return scored.takeError();
    if (!scored->tokenizer)
      return makeFileError(scored->tokenizerDirectory, "--eval: no vocabulary here");
    Expected<std::string> text = readInput(command.text);
    if (!text)
      return text.takeError();
    runner->text = scored->tokenizer->encode(*text);
    runner->scored = std::move(*scored);
  }
  EngineOptions options;
  options.checkAccesses = false;
  StringRef device = command.device == "auto" ? "cuda:0" : StringRef(command.device);
  auto opened = openDevice(device, options);
  if (!opened)
    return opened.takeError();
  runner->device = std::move(*opened);
  runner->name = runner->device->name();
  runner->timed = device != "emulate";
  Expected<KernelTimer> timer = KernelTimer::create(*runner->device);
  if (!timer)
    return timer.takeError();
  runner->timer.emplace(std::move(*timer));
  SmallString<128> directory;
  if (std::error_code failed = llvm::sys::fs::createUniqueDirectory("kiln-ladder", directory))
    return makeError("cannot make a directory for plans: " + failed.message());
  runner->work = directory.str().str();
  return runner;
}

int64_t RungRunner::newTokens(const LadderPart &part) const {
  return std::min(mostNewTokens, modelContext - part.length);
}

Expected<CompileRequest> RungRunner::request(const LadderPart &part, const Rung &rung) const {
  PipelineOptions pipeline;
  pipeline.target = command.target;
  if (Error error = applyStrategies(part.strategyOf(rung), pipeline))
    return error;
  bool isGeneration = part.timed == Timed::Generation;
  CompileRequest request{command.model, {std::move(pipeline), {}, ""}, {"prefill"}, {}};
  request.options.build = {part.batch, part.layers, part.positions};
  if (isGeneration)
    request.functions.insert(request.functions.end(), {"decode", "sample"});
  request.most = {{"B", part.batch}, {"T", part.length + (isGeneration ? newTokens(part) : 0)}};
  return request;
}

void RungRunner::prepare(const LadderPart &part, const Rung &rung) const {
  Expected<CompileRequest> wanted = request(part, rung);
  if (!wanted)
    return llvm::consumeError(wanted.takeError()); // `run` reports it
  std::string directory = work + "/next.plan";
  auto remove = removing(directory);
  llvm::consumeError(compileTo(directory, *wanted).takeError());
}

Expected<RungRunner::Loaded> RungRunner::load(const CompileRequest &request, const WeightSource &source,
                                              Executor::Options capacity) {
  std::string directory = work + "/rung.plan";
  auto remove = removing(directory);
  Expected<CompiledPlan> compiled = compileTo(directory, request);
  if (!compiled)
    return compiled.takeError();
  llvm::erase_if(capacity.functions,
                 [&](const std::string &function) { return !compiled->plan.findFunction(function); });
  if (Error error = PlanModel::check(compiled->plan, capacity.functions))
    return error;
  auto executor = Executor::create(*device, std::move(compiled->plan), {directory, ""}, source, capacity);
  if (!executor)
    return executor.takeError();
  Loaded loaded{std::move(compiled->sources), std::move(compiled->module), std::move(*executor), nullptr};
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
  double squares = 0, largest = 0;
  size_t count = 0;
  for (const auto &[want, got] : llvm::zip(expected, actual))
    for (const auto &[a, b] : llvm::zip(want, got)) {
      double difference = std::abs(static_cast<double>(a) - b);
      // A NaN is the largest of all differences.
      error.largest = difference <= error.largest ? error.largest : std::isnan(difference) ? INFINITY : difference;
      squares += difference * difference;
      largest = std::max<double>(largest, std::abs(a));
      ++count;
    }
  error.rootMeanSquare = std::sqrt(squares / static_cast<double>(count));
  error.allowed = largest * allowedShare(loaded.executor->plan().dtype, anyRounded(*loaded.module));
  return Error::success();
}

Expected<double> RungRunner::perplexity(const LadderPart &part, const Rung &rung) {
  CompileRequest request{command.scored, {}, {"score"}, {{"B", 1}}};
  request.options.pipeline.target = command.target;
  if (Error error = applyStrategies(part.strategyOf(rung), request.options.pipeline))
    return error;
  request.options.build.maxBatch = 1;
  int64_t context = contextOf(*scored->module);
  request.most["T"] = context;
  Expected<Loaded> loaded = load(request, *scored->weights, {1, context, {"score"}});
  if (!loaded)
    return loaded.takeError();
  Expected<PerplexityResult> result = evaluatePerplexity(*loaded->model, text, {});
  if (!result)
    return result.takeError();
  return result->perplexity();
}

//===----------------------------------------------------------------------===//
// Timing
//===----------------------------------------------------------------------===//

/// Sums up launches; `ops` are the steps' ops, one for each launch of the call.
static void count(ArrayRef<KernelLaunch> launches, ArrayRef<const Op *> ops, const DimBinding &dims, DType dtype,
                  const Target &target, RungResult &result) {
  for (const auto &[launch, op] : llvm::zip(launches, ops)) {
    int64_t bytes = cantFail(launch.step->bytes.evaluate(dims), "the executor has checked the dims");
    int64_t flops = cantFail(launch.step->flops.evaluate(dims), "the executor has checked the dims");
    ++result.launches;
    result.bytes += bytes;
    result.flops += flops;
    result.limitSeconds += target.rooflineSeconds(bytes, flops, dtype, isRounded(*op));
    result.arithmeticRate = std::max(result.arithmeticRate, target.arithmeticRate(dtype, isRounded(*op)));
  }
}

Error RungRunner::timeSteps(Loaded &loaded, const LadderPart &part, RungResult &result) {
  Executor &executor = *loaded.executor;
  SampleCall sample("prefill", part.batch, part.length, 0);
  if (Error error = executor.enqueue(sample.call))
    return error;
  auto launches = executor.launches(sample.call);
  if (!launches)
    return launches.takeError();
  std::vector<KernelLaunch> own;
  std::vector<const Op *> ops;
  for (const auto &[launch, op] : llvm::zip(*launches, promptSteps(*loaded.module).ops()))
    if (!part.takes || part.takes(*op)) {
      own.push_back(launch);
      ops.push_back(op.get());
    }
  if (own.empty())
    return makeError("nothing of this part is a kernel of its own");
  count(own, ops, sample.call.dims, executor.plan().dtype, *theTarget, result);
  if (Error error = findKernel(loaded, own, result))
    return error;
  if (!timed || part.timed != Timed::Steps)
    return Error::success();
  auto samples = timer->time(std::move(own), command.options);
  if (!samples)
    return samples.takeError();
  result.seconds = std::move(*samples);
  return Error::success();
}

/// Which of the kernels takes longest, and what it asks of the GPU.
Error RungRunner::findKernel(Loaded &loaded, ArrayRef<KernelLaunch> launches, RungResult &result) {
  std::map<std::string, std::vector<KernelLaunch>> byKernel;
  for (const KernelLaunch &launch : launches)
    byKernel[launch.planned->kernel].push_back(launch);
  double longest = -1;
  const PlanLaunch *planned = nullptr;
  for (auto &[kernel, own] : byKernel) {
    const PlanLaunch *first = own.front().planned;
    double seconds = 0;
    if (timed && byKernel.size() > 1) {
      auto samples =
          timer->time(std::move(own), {.samples = 3, .warmUp = 0, .mostSeconds = command.options.mostSeconds});
      if (!samples)
        return samples.takeError();
      seconds = medianOf(std::move(*samples));
    }
    if (seconds > longest) {
      longest = seconds;
      planned = first;
    }
  }
  const PlanKernel *kernel = loaded.executor->plan().findKernel(planned->kernel);
  if (!kernel)
    return Error::success(); // a library
  result.kernel = kernel->name;
  auto known = kernel->resources.find(command.target);
  if (known == kernel->resources.end())
    return Error::success();
  result.resources = known->second;
  result.sharedBytes = known->second.sharedBytes + planned->dynamicShared;
  result.occupancy = occupancyOf({planned->threads, known->second.registers, result.sharedBytes}, *theTarget).share;
  return Error::success();
}

Error RungRunner::timeCall(Loaded &loaded, const LadderPart &part, RungResult &result) {
  auto measured = measureCall(*loaded.executor, "prefill", part.batch, part.length, 0, command.options);
  if (!measured)
    return measured.takeError();
  result.callSeconds = measured->median();
  if (part.timed == Timed::Call)
    result.seconds = std::move(measured->seconds);
  return Error::success();
}

Error RungRunner::timeGeneration(Loaded &loaded, const LadderPart &part, RungResult &result) {
  GenerateOptions options;
  options.maxNewTokens = newTokens(part);
  options.sampling.greedy = true;
  options.ignoreEos = true;
  UncachedModel uncached(*loaded.model);
  bool isCached = loaded.executor->plan().findFunction("decode");
  LanguageModel &model = isCached ? static_cast<LanguageModel &>(*loaded.model) : uncached;
  for (int run = -1; run < wholeRuns; ++run) {
    auto start = std::chrono::steady_clock::now();
    auto generated = generate(model, nullptr, promptsOf(part), options);
    if (!generated)
      return generated.takeError();
    if (run >= 0 && timed)
      result.seconds.push_back(Seconds(std::chrono::steady_clock::now() - start).count());
  }
  return Error::success();
}

Error RungRunner::timeFirstToken(const CompileRequest &request, const LadderPart &part, RungResult &result) {
  for (int run = -1; run < wholeRuns; ++run) {
    std::string directory = work + "/again.plan";
    auto remove = removing(directory);
    Expected<CompiledPlan> compiled = compileTo(directory, request);
    if (!compiled)
      return compiled.takeError();
    auto start = std::chrono::steady_clock::now();
    auto executor = Executor::create(*device, std::move(compiled->plan), {directory, ""}, *weights,
                                     {part.batch, part.length, {"prefill"}});
    if (!executor)
      return executor.takeError();
    PlanModel model(**executor);
    Logits logits(part.batch);
    if (Error error = model.prefill(promptsOf(part), logits))
      return error;
    if (run >= 0 && timed)
      result.seconds.push_back(Seconds(std::chrono::steady_clock::now() - start).count());
  }
  return Error::success();
}

//===----------------------------------------------------------------------===//
// A rung
//===----------------------------------------------------------------------===//

Expected<RungResult> RungRunner::tryRung(const LadderPart &part, const Rung &rung) {
  RungResult result;
  Expected<CompileRequest> wanted = request(part, rung);
  if (!wanted)
    return wanted.takeError();
  Expected<const Logits *> expected = reference(part, rung);
  if (!expected)
    return expected.takeError();
  {
    Expected<Loaded> loaded = load(*wanted, *weights, {part.batch, wanted->most["T"], {"prefill", "decode"}});
    if (!loaded)
      return loaded.takeError();
    if (Error error = compare(*loaded, part, **expected, result.error))
      return error;
    if (part.timed != Timed::Generation)
      if (Error error = timeSteps(*loaded, part, result))
        return error;
    if (timed && (part.timed == Timed::Steps || part.timed == Timed::Call))
      if (Error error = timeCall(*loaded, part, result))
        return error;
    if (part.timed == Timed::Generation)
      if (Error error = timeGeneration(*loaded, part, result))
        return error;
  }
  if (part.timed == Timed::FirstToken)
    if (Error error = timeFirstToken(*wanted, part, result))
      return error;
  if (scored && part.wantsPerplexity) {
    Expected<double> found = perplexity(part, rung);
    if (!found)
      return found.takeError();
    result.perplexity = *found;
  }
  return result;
}

RungResult RungRunner::run(const LadderPart &part, const Rung &rung) {
  Expected<RungResult> result = tryRung(part, rung);
  if (result)
    return *result;
  RungResult failed;
  failed.failure = llvm::toString(result.takeError());
  return failed;
}

std::string MeasuredPart::note(size_t rung) const {
  const RungResult &own = results[rung];
  if (!own.failure.empty())
    return "failed: " + own.failure;
  if (own.isWrong())
    return formatv("wrong: logits are off by {0:E1}, allowed is {1:E1}", own.error.largest, own.error.allowed);
  constexpr double noise = 1.01;
  bool isSlower = rung > 0 && !results[rung - 1].seconds.empty() && own.median() > noise * results[rung - 1].median();
  if (!isSlower)
    return "";
  StringRef why = part->rungs[rung].whySlower;
  return "slower than the rung below: " + (why.empty() ? "not known why" : why.str());
}

} // namespace kiln
