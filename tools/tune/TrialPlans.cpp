#include "tools/tune/TrialPlans.h"

#include "tools/session/KeptWeights.h"

#include "runtime/weights/RandomCheckpoint.h"
#include "support/Diagnostic.h"
#include "support/files/StagedDirectory.h"

namespace kiln {

static CompileOptions tuningOptions(const TuneOptions &command, const PipelineOptions &pipeline, StringRef tuning) {
  CompileOptions options;
  options.pipeline = pipeline;
  options.pipeline.tuning = tuning.str();
  options.build.maxBatch = *llvm::max_element(command.batches);
  return options;
}

Expected<std::unique_ptr<Module>> compileForTuning(const TuneOptions &command, const PipelineOptions &pipeline,
                                                   StringRef tuning, SourceManager &sources) {
  return compileToStage(command.model, Stage::Plan, tuningOptions(command, pipeline, tuning), sources);
}

TrialPlans::TrialPlans(const TuneOptions &command, PipelineOptions pipeline, std::string folder,
                       const TuningDatabase &start, ArrayRef<TuningProblem> problems, Device &device, int64_t layers)
    : command(command), pipeline(std::move(pipeline)), folder(std::move(folder)), start(start), problems(problems),
      device(device), weights(std::make_unique<KeptWeights>(std::make_shared<RandomCheckpoint>(1, layers))) {}

Expected<CompiledPlan> TrialPlans::compile(Choose choose, const Twine &name) const {
  TuningDatabase database = start;
  for (const TuningProblem &problem : problems)
    database.set(
        {.problem = problem.name, .rows = problem.rows, .choice = choose(problem)->choice, .tokens = problem.tokens});
  std::string path = (folder + "/" + name).str();
  if (Error error = writeFiles(folder, {{(name + ".toml").str(), database.str()}}))
    return error;
  return compileTo(path + ".plan", {command.model, tuningOptions(command, pipeline, path + ".toml")});
}

Expected<std::unique_ptr<Executor>> TrialPlans::load(CompiledPlan compiled) const {
  Executor::Options capacity{*llvm::max_element(command.batches), compiled.plan.model.context, command.entries};
  auto executor = Executor::create(device, std::move(compiled.plan), {compiled.directory, ""}, *weights, capacity);
  llvm::sys::fs::remove_directories(compiled.directory);
  return executor;
}

Expected<std::unique_ptr<Executor>> TrialPlans::open(Choose choose, const Twine &name) const {
  Expected<CompiledPlan> compiled = compile(choose, name);
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
