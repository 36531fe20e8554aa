//===- ModelSource.h - what `kiln run` and `kiln eval` work on --------------===//
#pragma once

#include "tools/session/ModelOptions.h"

#include "driver/Compile.h"
#include "runtime/text/Tokenizer.h"
#include "runtime/weights/WeightSource.h"

namespace kiln {

/// What the user asked to be opened.
struct ModelRequest {
  /// What the reference executor is for. Nothing: a plan's IR is not even read.
  enum class Reference { Unused, Compares, Runs };

  std::string model; ///< a plan, a .toml, a directory with config.json, or IR text, .kiln
  WeightOptions weights = {};
  PipelineChoices pipeline = {};
  int64_t batch = 1; ///< sequences at once
  Reference reference = Reference::Compares;
};

/// A model with its weights and vocabulary, of a plan or to be compiled.
struct ModelSource {
  std::string modelPath;    ///< as the user named it
  std::optional<Plan> plan; ///< where that is a plan
  std::unique_ptr<SourceManager> sources;
  /// Fused, with @prefill, @decode and @score. None of a plan whose IR is not needed.
  std::unique_ptr<Module> module;
  std::shared_ptr<const WeightSource> weights;
  std::optional<Tokenizer> tokenizer; ///< none where there is no vocabulary
  std::string tokenizerDirectory;     ///< where one was looked for
  CompileOptions compileOptions;      ///< of the module, where there is no plan

  /// Names and sizes: the plan's, else the module's.
  PlanModelInfo model() const;
};

/// Opens a model, its weights and its vocabulary. A plan's files are read once. A model is compiled for `batch`
/// sequences at once. Error: options that the model, or a reference executor that runs it, cannot honour (UsageError);
/// a plan or IR of another dtype than f32 for a reference executor to run (the same); what reading and compiling
/// report; no weights to be found; a vocabulary that is larger than the model's.
Expected<ModelSource> openModel(const ModelRequest &request);

} // namespace kiln
