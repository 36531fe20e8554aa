//===- CompiledPlan.h - a plan that a program compiles for its own use ----===//
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

/// What to compile of a model, and for which calls.
struct CompileRequest {
  std::string model; ///< as compileToStage takes it
  CompileOptions options;
  std::vector<Entry> entries = {}; ///< the entries that will be called; empty: all of the model's functions
  int64_t batch = 0, tokens = 0;   ///< sizes of the largest call of these entries
};

/// Compiles a model for its target into a directory, with kernels from the cache if they are there. Error: errors of
/// compiling or writing; nothing is written then.
Expected<CompiledPlan> compileTo(StringRef directory, const CompileRequest &request);

} // namespace kiln
