//===- CompiledPlan.h - a plan that a program compiles for itself -----------===//
#pragma once

#include "driver/Compile.h"
#include "runtime/execution/Executor.h"

namespace kiln {

/// A plan on disk with its cubins, and the module that it was made from.
struct CompiledPlan {
  std::string directory;
  Plan plan;
  std::unique_ptr<SourceManager> sources; ///< of the module
  std::unique_ptr<Module> module;
};

/// What of a model is compiled, and what for.
struct CompileRequest {
  std::string model; ///< as compileToStage takes it
  CompileOptions options;
  std::vector<Entry> entries = {}; ///< that will be called; empty: all of the model's functions
  int64_t batch = 0, tokens = 0;   ///< of the largest call of these entries
};

/// Compiles a model for its target into a directory, with kernels from the cache where they are there. Error: what
/// compiling or writing reports; nothing is written then.
Expected<CompiledPlan> compileTo(StringRef directory, const CompileRequest &request);

} // namespace kiln
