//===- ModelOptions.h - how a model is compiled, and its weights -------------===//
#pragma once

#include "passes/Pipeline.h"
#include "plan/Plan.h"

namespace kiln {

/// How the user wants a model to be compiled. What was not given is the pipeline's default; what was given is honoured
/// or refused.
struct PipelineChoices {
  std::optional<std::string> dtype = {};    ///< as assign-precision takes it
  std::optional<std::string> matmul = {};   ///< as select-kernels takes it
  std::optional<std::string> strategy = {}; ///< as applyStrategies takes it
  std::optional<std::string> tuning = {};   ///< as choose-tiles takes it
};

/// How to get a model's weights.
struct WeightOptions {
  std::string directory;              ///< --weights
  std::optional<uint64_t> randomSeed; ///< --random-weights
};

/// Whether that is a directory with a plan.
bool isPlan(StringRef path);

/// Refuses a plan where a command compiles. Error: a UsageError.
Error checkIsModel(StringRef command, StringRef model);

/// What these options of the command line make of the pipeline. Error: a UsageError, as applyStrategies reports.
Expected<PipelineOptions> pipelineOptions(const PipelineChoices &choices);

/// What a compiled plan cannot honour: everything, for it is compiled. Error: a UsageError about the first that was
/// given.
Error checkForPlan(const PipelineChoices &choices, const Plan &plan, StringRef path);

/// What IR text cannot honour: it has its dtypes and is as fused as it is to become; where it has kernels, those stay.
/// Error: a UsageError about the first such option. `module` is the text's.
Error checkForText(const PipelineChoices &choices, const Module &module, StringRef path);

/// `WHAT: the reference executor … DOES; use …`: a UsageError about what needs another device. `does` says why.
Error makeReferenceError(const Twine &what, const Twine &does);

/// What the reference executor cannot honour: it runs no kernels and computes in fp32. Error: a UsageError about the
/// first such option, or what applyStrategies reports.
Error checkForReference(const PipelineChoices &choices);

} // namespace kiln
