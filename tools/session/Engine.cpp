#include "tools/session/Engine.h"
#include "tools/session/RankProcess.h"
#include "tools/session/ReferenceModel.h"
#include "tools/session/StepChecker.h"

#include "codegen/CompilePlan.h"
#include "ir/Printer.h"
#include "passes/Pipeline.h"
#include "runtime/device/cuda/CudaDevice.h"
#include "runtime/device/emulated/EmulatedDevice.h"
#include "runtime/generation/PlanModel.h"
#include "runtime/generation/UncachedModel.h"
#include "runtime/generation/ranks/RankedModel.h"
#include "support/Diagnostic.h"
#include "support/files/Cache.h"
#include "support/files/File.h"
#include "support/files/Leftovers.h"
#include "support/text/Printable.h"
#include "tools/session/UsageError.h"

namespace kiln {

namespace {

class ReferenceEngine : public Engine {
public:
  explicit ReferenceEngine(const ModelSource &source)
      : reference(source), isCached(source.module->findFunction(Entry::Decode)) {}
  Error loadWeights() { return reference.loadWeights(); }
  LanguageModel &model() override { return isCached ? static_cast<LanguageModel &>(reference) : uncached; }
  Scorer &scorer() override { return reference; }
  void observe(std::function<bool(StringRef)> isWanted, ValueObserver observer) override {
    reference.setResultHook([=](const Value &value, const Tensor<float> &result) {
      return isWanted(value.name) ? observer(value.name, result.elements()) : Error::success();
    });
  }
  void stopObserving() override { reference.setResultHook(nullptr); }

private:
  ReferenceModel reference;
  UncachedModel uncached{reference};
  bool isCached;
};

using OwnDevices = std::vector<std::unique_ptr<Device>>;

class PlanEngine : public Engine {
public:
  /// `devices` are those that the engine keeps, together with its replicas; another's are not among them.
  PlanEngine(std::shared_ptr<OwnDevices> devices, std::unique_ptr<Executor> executor)
      : devices(std::move(devices)), planExecutor(std::move(executor)), planModel(*planExecutor) {}

  /// From now on, compares every step with the reference executor.
  void check(const ModelSource &source) {
    reference.emplace(source);
    checker.emplace(
        *source.module, [this](const Value &weight, int64_t rank) { return reference->loadWeight(weight, rank); },
        *planExecutor);
    checker->attach();
  }
  int64_t stepsChecked() const override { return checker ? checker->stepsChecked() : 0; }

  LanguageModel &model() override { return modelOf(*planExecutor, planModel, uncached); }
  Scorer &scorer() override { return planModel; }
  Executor *executor() override { return planExecutor.get(); }
  void observe(std::function<bool(StringRef)> isWanted, ValueObserver observer) override;
  void stopObserving() override { planExecutor->stopObserving(); }

private:
  std::shared_ptr<OwnDevices> devices;
  std::unique_ptr<Executor> planExecutor;
  PlanModel planModel;
  UncachedModel uncached{planModel};       ///< used if the plan has no cache
  std::optional<ReferenceModel> reference; ///< provides the weights for the check
  std::optional<StepChecker> checker;
};

void PlanEngine::observe(std::function<bool(StringRef)> isWanted, ValueObserver observer) {
  auto onCall = [](const Executor::Call &) { return Error::success(); };
  // A step's results are downloaded at once: later steps may reuse their memory.
  auto onStep = [this, isWanted, observer](const PlanFunction &function, size_t step, double) -> Error {
    std::vector<float> elements;
    for (const PlanBuffer &buffer : function.buffers) {
      const std::string &name = buffer.tensor.name;
      if (buffer.first != static_cast<int64_t>(step) || !isWanted(name))
        continue;
      elements.resize(*planExecutor->elementCount(name));
      if (Error error = planExecutor->download(name, 0, elements))
        return error;
      if (Error error = observer(name, elements))
        return error;
    }
    return Error::success();
  };
  planExecutor->setObserver({onCall, onStep});
}

/// One model on several devices, its ranks.
class RankedEngine : public Engine {
public:
  RankedEngine(std::shared_ptr<OwnDevices> devices, std::vector<std::unique_ptr<Executor>> executors)
      : devices(std::move(devices)), executors(std::move(executors)) {}

  Error start() {
    std::vector<Executor *> all;
    for (const auto &executor : executors)
      all.push_back(executor.get());
    if (Error error = RankedModel::create(all).moveInto(ranked))
      return error;
    uncached.emplace(*ranked);
    return Error::success();
  }

  LanguageModel &model() override { return modelOf(*executor(), *ranked, *uncached); }
  Scorer &scorer() override { return *ranked; }
  Executor *executor() override { return executors.front().get(); }
  Error onRanks(function_ref<Error(size_t, Executor &)> work) override {
    return ranked->run([&](size_t rank) { return work(rank, *executors[rank]); });
  }

private:
  std::shared_ptr<OwnDevices> devices;
  std::vector<std::unique_ptr<Executor>> executors;
  std::unique_ptr<RankedModel> ranked;
  std::optional<UncachedModel> uncached; ///< used if the plan has no cache
};

/// The files of a plan without cubins.
std::map<std::string, std::string> filesOf(const GeneratedPlan &generated, const std::string &fusedIr) {
  std::map<std::string, std::string> files = {{"plan.toml", writePlan(generated.plan)}, {"ir/fused.kiln", fusedIr}};
  for (const KernelSource &source : generated.sources)
    files["kernels/" + source.fileName()] = source.text;
  return files;
}

/// A name made from the content of all files of the plan.
std::string contentHash(const std::map<std::string, std::string> &files) {
  std::string all;
  for (const auto &[name, text] : files)
    all += name + "\n" + text;
  return sha256Hex(all).substr(0, 24);
}

/// Whether a directory holds these files with this content: an entry of the cache may have been damaged.
bool holds(StringRef directory, const std::map<std::string, std::string> &files) {
  return llvm::all_of(files, [&](const auto &file) {
    Expected<std::string> text = readFile((directory + "/" + file.first).str());
    if (text)
      return *text == file.second;
    llvm::consumeError(text.takeError());
    return false;
  });
}

/// Writes the model's plan into the cache, unless it is there.
Expected<std::string> cachePlan(const ModelSource &source) {
  std::string cache = defaultCacheDirectory();
  if (cache.empty())
    return makeError("plans of models are kept in a cache: set KILN_CACHE to a directory, or give a plan");
  if (Error error = openCache(cache))
    return error;
  sweepLeftoversIn(cache + "/plans");
  SourceManager sources;
  auto module = compileToStage(source.modelPath, Stage::Plan, source.compileOptions, sources);
  if (!module)
    return module.takeError();
  Expected<GeneratedPlan> generated = generate(**module);
  if (!generated)
    return generated.takeError();
  std::string fusedIr = toString(*source.module);
  std::map<std::string, std::string> files = filesOf(*generated, fusedIr);
  std::string directory = cache + "/plans/" + contentHash(files);
  if (holds(directory, files))
    return directory;
  if (Error error = writePlanDirectory(directory, *generated, {}, {{"fused", fusedIr}}))
    return error;
  return directory;
}

/// The launch options for a schedule that the command line has accepted.
LaunchOptions launchOptions(StringRef schedule) {
  LaunchOptions options;
  if (schedule == "reversed")
    options.schedule = Schedule::Reversed;
  if (schedule.consume_front("random:")) {
    options.schedule = Schedule::Random;
    schedule.getAsInteger(10, options.seed);
  }
  return options;
}

} // namespace

Expected<std::unique_ptr<Device>> openDevice(StringRef name, const EngineOptions &engine) {
  std::string cache = defaultCacheDirectory();
  if (name == "emulate") {
    if (cache.empty())
      return makeError("--device emulate keeps compiled kernels in a cache: set KILN_CACHE to a directory");
    if (Error error = openCache(cache))
      return error;
    EmulatedDevice::Options options;
    options.cacheDirectory = cache;
    options.launch = launchOptions(engine.schedule);
    options.checkAccesses = engine.checkAccesses;
    options.progress = engine.onKernelCompiled;
    options.compilesAhead = engine.group != nullptr;
    return EmulatedDevice::create(options);
  }
  CudaDevice::Options options;
  options.cacheDirectory = cache;
  options.note = engine.onNote ? engine.onNote : [](StringRef text) { llvm::errs() << printable(text) << '\n'; };
  name.consume_front("cuda");
  if (name.consume_front(":") && name.getAsInteger(10, options.ordinal))
    return makeError("--device: expected auto, cpu, emulate or cuda:N, got a GPU number '" + name + "'");
  Expected<std::unique_ptr<Device>> device = CudaDevice::create(options);
  if (device || CudaDevice::isAvailable())
    return device;
  // The machine has no GPU, or a driver that cannot use it.
  std::string reason = takeDiagnostics(device.takeError()).front().message;
  return makeError(reason +
                   (engine.needsKernels ? "; --device emulate needs none" : "; --device cpu and emulate need none"));
}

namespace {

/// Locates the plan's kernels. Error: none of the edited files is a kernel of the plan.
Expected<KernelFiles> kernelFiles(const Plan &plan, StringRef directory, StringRef edited) {
  KernelFiles files{directory.str(), edited.str()};
  if (!edited.empty() &&
      llvm::none_of(plan.kernels, [&](const PlanKernel &kernel) { return files.isEdited(kernel.name); }))
    return makeFileError(edited, "expected kernels of the plan, like " + plan.kernels.front().name + ".cu, found none");
  return files;
}

/// Makes a span of every step that the executor runs from now on.
void traceSteps(Executor &executor, Trace &trace) {
  auto dims = std::make_shared<DimBinding>(); // of the current call
  auto onCall = [dims](const Executor::Call &call) {
    *dims = call.dims;
    return Error::success();
  };
  auto onStep = [dims, &trace](const PlanFunction &function, size_t index, double seconds) {
    const PlanStep &step = function.steps[index];
    json::Object details{{"function", "@" + function.name}, {"step", static_cast<int64_t>(index)}};
    if (const PlanBuffer *result = function.resultOf(index))
      details["result"] = "%" + result->tensor.name;
    if (!step.location.empty())
      details["location"] = json::fixUTF8(step.location);
    trace.addEnded(TraceLane::Kernels, step.launchFor(*dims).kernel, seconds, std::move(details));
    return Error::success();
  };
  executor.setObserver({onCall, onStep});
}

/// One engine on all devices, the ranks of the plan. Error: a UsageError about an option that ranks do not support.
Expected<std::vector<std::unique_ptr<Engine>>> openRanks(const ModelSource &source, const EngineOptions &options,
                                                         ArrayRef<Device *> devices,
                                                         const std::shared_ptr<OwnDevices> &own, const Plan &plan,
                                                         const KernelFiles &files, const Executor::Options &capacity) {
  for (auto [option, isGiven] :
       {std::pair<StringRef, bool>{"--check reference", options.checkReference}, {"--trace", options.trace != nullptr}})
    if (isGiven)
      return makeUsageError(option + ": expected a model on one GPU, got one that is split among " + Twine(plan.ranks));
  std::vector<std::unique_ptr<Engine>> engines;
  if (options.group) {
    if (Error error = openRankProcess(source, options, std::move(own->front()), plan, files, capacity)
                          .moveInto(engines.emplace_back()))
      return error;
    return engines;
  }
  if (Error error = refuseRankProcesses())
    return error;
  auto executors = Executor::createRanks(devices, plan, files, *source.weights, capacity);
  if (!executors)
    return executors.takeError();
  auto engine = std::make_unique<RankedEngine>(own, std::move(*executors));
  if (Error error = engine->start())
    return error;
  engines.push_back(std::move(engine));
  return engines;
}

/// An engine on each device. `own` are those of the devices that the engines are to keep.
Expected<std::vector<std::unique_ptr<Engine>>> openPlanEngines(const ModelSource &source, const EngineOptions &options,
                                                               ArrayRef<Device *> devices,
                                                               const std::shared_ptr<OwnDevices> &own) {
  Expected<LocatedPlan> located = locatePlan(source);
  if (!located)
    return located.takeError();
  auto &[directory, plan] = *located;
  std::vector<Entry> entries = options.entries;
  if (plan.states.empty())
    llvm::erase(entries, Entry::Decode); // the model keeps no cache
  if (Error error = PlanModel::check(plan, entries))
    return error;
  Executor::Options capacity{options.batch, plan.model.context, entries, options.trace};
  Expected<KernelFiles> files = kernelFiles(plan, directory, options.kernelsFrom);
  if (!files)
    return files.takeError();
  if (plan.ranks > 1)
    return openRanks(source, options, devices, own, plan, *files, capacity);
  auto executors = Executor::createReplicas(devices, plan, *files, *source.weights, capacity);
  if (!executors)
    return executors.takeError();
  std::vector<std::unique_ptr<Engine>> engines;
  for (auto &executor : *executors) {
    auto engine = std::make_unique<PlanEngine>(own, std::move(executor));
    if (options.checkReference)
      engine->check(source);
    if (options.trace && options.traceKernels)
      traceSteps(*engine->executor(), *options.trace);
    engines.push_back(std::move(engine));
  }
  return engines;
}

} // namespace

ModelRequest::Reference referenceUse(const EngineOptions &options) {
  using Reference = ModelRequest::Reference;
  if (options.device == "cpu")
    return Reference::Runs;
  return options.checkReference ? Reference::Compares : Reference::Unused;
}

Expected<LocatedPlan> locatePlan(const ModelSource &source) {
  if (source.plan)
    return LocatedPlan{source.modelPath, *source.plan};
  Expected<std::string> directory = cachePlan(source);
  if (!directory)
    return directory.takeError();
  Expected<Plan> plan = readPlan(*directory);
  if (!plan)
    return plan.takeError();
  return LocatedPlan{std::move(*directory), std::move(*plan)};
}

static Expected<std::unique_ptr<Engine>> openReferenceEngine(const ModelSource &source) {
  auto engine = std::make_unique<ReferenceEngine>(source);
  if (Error error = engine->loadWeights())
    return error;
  return engine;
}

Expected<std::vector<std::unique_ptr<Engine>>> openEngines(const ModelSource &source, const EngineOptions &options,
                                                           ArrayRef<std::string> names) {
  std::vector<std::unique_ptr<Engine>> engines;
  if (names.front() == "cpu") {
    if (Error error = openReferenceEngine(source).moveInto(engines.emplace_back()))
      return error;
    return engines;
  }
  if (options.opened)
    return openPlanEngines(source, options, options.opened, nullptr);
  auto own = std::make_shared<OwnDevices>();
  std::vector<Device *> devices;
  for (StringRef name : names) {
    Expected<std::unique_ptr<Device>> device = openDevice(name, options);
    if (!device)
      return device.takeError();
    devices.push_back(own->emplace_back(std::move(*device)).get());
  }
  return openPlanEngines(source, options, devices, own);
}

Expected<std::unique_ptr<Engine>> openEngine(const ModelSource &source, const EngineOptions &options) {
  auto engines = openEngines(source, options, options.device);
  if (!engines)
    return engines.takeError();
  return std::move(engines->front());
}

} // namespace kiln
