//===- Compile.h - from a model to a module at a stage ----------------------===//
#pragma once

#include "frontend/BuildModule.h"
#include "passes/Pipeline.h"

namespace kiln {

struct CompileOptions {
  PipelineOptions pipeline;
  BuildOptions build;
};

/// Reads MODEL (a .toml or a directory with config.json) and runs the pipeline up to `stage`.
/// Error: as readModelConfig and the passes report.
Expected<std::unique_ptr<Module>> compileToStage(StringRef model, Stage stage, const CompileOptions &options,
                                                 SourceManager &sources);

} // namespace kiln
