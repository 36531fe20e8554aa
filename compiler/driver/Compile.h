//===- Compile.h - compiling a model to a module at a stage ---------------===//
#pragma once

#include "frontend/BuildModule.h"
#include "passes/Pipeline.h"

namespace kiln {

struct CompileOptions {
  PipelineOptions pipeline;
  BuildOptions build;
  /// `a,b{n=2}`: passes to run in place of the pipeline's; empty: the pipeline's.
  std::string passes;
};

/// Reads MODEL and runs passes up to `stage`. A .toml, a directory with config.json or a model in one file goes through
/// the whole pipeline. The IR of a .kiln file is taken to be as fused as it is to become, as Stage::Fused leaves it:
/// the passes behind that run, and none where an op has a kernel already. Of `options.passes`, a stage runs as many as
/// endOf says. Error: as readModelConfig, parseModule and the passes report.
Expected<std::unique_ptr<Module>> compileToStage(StringRef model, Stage stage, const CompileOptions &options,
                                                 SourceManager &sources);

/// Whether kernels have been chosen for ops of the module.
bool hasKernels(const Module &module);

} // namespace kiln
