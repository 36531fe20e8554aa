//===- ModelSource.h - the model of `kiln run` and `kiln eval` ------------===//
#pragma once

#include "tools/session/ModelOptions.h"

#include "driver/Compile.h"
#include "runtime/text/Tokenizer.h"
#include "runtime/weights/WeightSource.h"

namespace kiln {

/// The user's request: what to open, and how.
struct ModelRequest {
  /// The purpose of the reference executor. If there is none, a plan's IR is not read.
  enum class Reference { Unused, Compares, Runs };

  std::string model; ///< a plan, a .toml, a directory with config.json, a model in one file, or IR text, .kiln
  WeightOptions weights = {};
  PipelineChoices pipeline = {};
  int64_t batch = 1;       ///< sequences at once
  std::string device = ""; ///< that is to run it, as EngineOptions names it; empty: a whole GPU of the plan's target
  Reference reference = Reference::Compares;
};

/// A model, from a plan or to be compiled, with its weights and vocabulary.
struct ModelSource {
  std::string modelPath;    ///< as the user named it
  std::optional<Plan> plan; ///< if the path is a plan
  std::unique_ptr<SourceManager> sources;
  /// Fused, with @prefill, @decode and @score. Null for a plan whose IR is not needed.
  std::unique_ptr<Module> module;
  std::shared_ptr<const WeightSource> weights;
  std::optional<uint64_t> randomSeed; ///< of weights that no file has
  std::optional<Tokenizer> tokenizer; ///< none if there is no vocabulary
  std::string filesPath;              ///< the directory or file in which weights and vocabulary were looked for
  CompileOptions compileOptions;      ///< of the module, if there is no plan

  /// The GPUs that share the model.
  int64_t ranks() const { return plan ? plan->ranks : module->ranks(); }

  /// Names and sizes: the plan's, else the module's.
  PlanModelInfo model() const;

  /// The token that begins a text of which nothing is given: end-of-text, if the model has it.
  std::optional<int32_t> beginToken() const;
};

/// Opens a model, its weights and its vocabulary. A plan's files are read once. A model is compiled for `batch`
/// sequences at once. Error: options that the model, or a reference executor that runs it, cannot honour (UsageError);
/// a plan or IR of a dtype other than f32 that the reference executor would have to run (UsageError); errors of reading
/// and compiling; no weights; a vocabulary that is larger than the model's; as of checkOrigin, for a plan without
/// `weights`.
Expected<ModelSource> openModel(const ModelRequest &request);

} // namespace kiln
