//===- TrialPlans.h - plans of a model with given trials ------------------===//
#pragma once

#include "tools/session/CompiledPlan.h"
#include "tools/session/ModelSource.h"
#include "tools/tune/Problems.h"
#include "tools/tune/TuneOptions.h"

#include "runtime/execution/Executor.h"

namespace kiln {

/// The command's model after the pipeline, with a tuning database: `none`, `shipped` or a file. Error: as
/// compileToStage reports.
Expected<std::unique_ptr<Module>> compileForTuning(const TuneOptions &command, const PipelineOptions &pipeline,
                                                   StringRef tuning, SourceManager &sources);

/// Compiles and loads the model with chosen configurations. Weights are random: their values do not affect a kernel's
/// time.
class TrialPlans {
public:
  /// The trial that a plan uses for a problem.
  using Choose = function_ref<const Trial *(const TuningProblem &)>;
  /// The first choices: the model's, or those that the command starts from.
  static const Trial *firstChoice(const TuningProblem &problem) { return &problem.trials[0]; }

  /// Plans of a model with that number of layers go to `folder`, which need not exist. `start` has what is chosen for
  /// other problems. Arguments that are passed by reference must outlive them.
  TrialPlans(const TuneOptions &command, PipelineOptions pipeline, std::string folder, const TuningDatabase &start,
             ArrayRef<TuningProblem> problems, Device &device, int64_t layers);

  /// Compiles the plan FOLDER/NAME.plan; several threads may at once. Error: a kernel that cannot be compiled; files
  /// that cannot be written.
  Expected<CompiledPlan> compile(Choose choose, const Twine &name) const;
  /// Loads a plan for the largest of the command's calls, and removes its files. Error: as Executor::create reports.
  Expected<std::unique_ptr<Executor>> load(CompiledPlan compiled) const;
  /// Compiles and loads a plan.
  Expected<std::unique_ptr<Executor>> open(Choose choose, const Twine &name) const;

  /// Error: files cannot be removed.
  Error removeFiles() const;

private:
  const TuneOptions &command;
  PipelineOptions pipeline;
  std::string folder;
  const TuningDatabase &start;
  ArrayRef<TuningProblem> problems;
  Device &device;
  std::unique_ptr<WeightSource> weights;
};

} // namespace kiln
