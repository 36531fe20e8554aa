#include "TrialPlans.h"

#include "codegen/CompilePlan.h"
#include "nvrtc/CubinCompiler.h"
#include "runtime/RandomCheckpoint.h"
#include "support/Diagnostic.h"
#include "support/File.h"

namespace kiln {

namespace {

/// Random tensors, each made once for all plans.
class KeptWeights : public WeightSource {
public:
  explicit KeptWeights(int64_t layers) : source(1, layers) {}
  bool has(StringRef name) const override { return source.has(name); }
  Expected<TensorView> tensor(StringRef name, ArrayRef<int64_t> shape) const override {
    std::lock_guard lock(mutex);
    if (auto it = kept.find(name); it != kept.end())
      return it->second;
    Expected<TensorView> made = source.tensor(name, shape);
    if (made)
      kept.insert_or_assign(name.str(), *made);
    return made;
  }

private:
  RandomCheckpoint source;
  mutable std::mutex mutex;
  mutable std::map<std::string, TensorView, std::less<>> kept;
};

} // namespace

Expected<std::unique_ptr<Module>> compileForTuning(const TuneCommand &command, const PipelineOptions &pipeline,
                                                   StringRef tuning, SourceManager &sources) {
  CompileOptions options;
  options.pipeline = pipeline;
  options.pipeline.tuning = tuning.str();
  options.build.maxBatch = *llvm::max_element(command.batches);
  return compileToStage(command.model, Stage::Plan, options, sources);
}

TrialPlans::TrialPlans(const TuneCommand &command, PipelineOptions pipeline, std::string folder,
                       ArrayRef<TuningProblem> problems, Device &device, int64_t layers)
    : command(command), pipeline(std::move(pipeline)), folder(std::move(folder)), problems(problems), device(device),
      weights(std::make_unique<KeptWeights>(layers)) {}

Expected<TrialPlans::Compiled> TrialPlans::compile(Choose choose, const Twine &name) const {
  TuningDatabase database;
  database.target = command.target;
  for (const TuningProblem &problem : problems)
    database.set({problem.name, problem.rows, choose(problem)->choice});
  std::string path = (folder + "/" + name).str();
  if (Error error = writeFiles(folder, {{(name + ".toml").str(), database.str()}}))
    return error;
  SourceManager sources;
  auto module = compileForTuning(command, pipeline, path + ".toml", sources);
  if (!module)
    return module.takeError();
  Expected<GeneratedPlan> generated = generate(**module);
  if (!generated)
    return generated.takeError();
  CubinOptions options;
  options.targets = {command.target};
  options.cacheDirectory = defaultCacheDirectory();
  auto cubins = compileCubins(*generated, options);
  if (!cubins)
    return cubins.takeError();
  if (Error error = writePlanDirectory(path + ".plan", *generated, *cubins, {}))
    return error;
  return Compiled{path + ".plan", std::move(generated->plan)};
}

Expected<std::unique_ptr<Executor>> TrialPlans::load(Compiled compiled) const {
  Executor::Options capacity{*llvm::max_element(command.batches), compiled.plan.model.context, command.functions};
  return Executor::create(device, std::move(compiled.plan), {compiled.directory, ""}, *weights, capacity);
}

Expected<std::unique_ptr<Executor>> TrialPlans::open(Choose choose, const Twine &name) const {
  Expected<Compiled> compiled = compile(choose, name);
  if (!compiled)
    return compiled.takeError();
  return load(std::move(*compiled));
}

Error TrialPlans::removeFiles() const {
  if (std::error_code failure = llvm::sys::fs::remove_directories(folder, /*IgnoreErrors=*/false))
    return makeFileError(folder, "cannot remove: " + failure.message());
  return Error::success();
}

} // namespace kiln
