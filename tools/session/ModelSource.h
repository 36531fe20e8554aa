//===- ModelSource.h - what `kiln run` and `kiln eval` work on --------------===//
#pragma once

#include "tools/session/ModelOptions.h"

#include "driver/Compile.h"
#include "runtime/text/Tokenizer.h"
#include "runtime/weights/WeightSource.h"

namespace kiln {

/// A model ready to be evaluated by the reference executor.
struct ModelSource {
  std::unique_ptr<SourceManager> sources;
  std::unique_ptr<Module> module; ///< fused, with @prefill, @decode and @score
  std::shared_ptr<const WeightSource> weights;
  std::optional<Tokenizer> tokenizer; ///< none where there is no vocabulary
  std::string tokenizerDirectory;     ///< where one was looked for

  std::string modelPath;         ///< as the user named it
  std::string planDirectory;     ///< empty unless the user named a plan
  CompileOptions compileOptions; ///< of the module
};

/// What these options of the command line make of the pipeline. Error: as applyStrategies reports.
Expected<PipelineOptions> pipelineOptions(const PipelineChoices &choices);

/// Opens a plan (its IR), a .toml or a model directory, its weights and its vocabulary. A model is compiled for `batch`
/// sequences at once with these options. Error: what these report; a strategy for a plan, which has its own; no weights
/// to be found; a vocabulary that is larger than the model's.
Expected<ModelSource> openModel(StringRef model, const WeightOptions &options, int64_t batch,
                                const PipelineOptions &pipeline);

} // namespace kiln
