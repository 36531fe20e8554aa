//===- WritePlan.h - a model, compiled into a plan on disk ------------------===//
#pragma once

#include "tools/session/ModelOptions.h"

#include "codegen/CompilePlan.h"
#include "driver/Compile.h"
#include "support/Diagnostic.h"

namespace kiln {

/// The user's request: what to compile, and how.
struct PlanRequest {
  std::string model; ///< what compileToStage takes
  /// GPUs that kernels are for, and virtual architectures (compute_80) for PTX. Tiles are chosen for the first, which
  /// is a GPU. Empty: the pipeline's.
  std::vector<std::string> targets;
  PipelineChoices pipeline;
  int64_t maxBatch = BuildOptions().maxBatch;
  std::string passes;     ///< as CompileOptions::passes
  bool withCubins = true; ///< whether kernels are compiled for the targets
};

/// The compiler's options for a request. Error: a UsageError, also about options that exclude each other.
Expected<CompileOptions> compileOptions(const PlanRequest &request);

struct PlanOutput {
  std::string directory;                                                        ///< empty: the model's name + .plan
  std::string cacheDirectory;                                                   ///< for cubins; empty: none
  std::function<void(size_t done, size_t all, StringRef what)> onProgress = {}; ///< called after each cubin
  std::function<void(const Diagnostic &note)> onNote = {}; ///< called with what the user may want to know; may be empty
};

/// A plan on disk.
struct WrittenPlan {
  std::string directory;
  GeneratedPlan generated;
  std::map<std::string, std::string> ir; ///< by stage: graph, fused, plan
};

/// Compiles a model and writes its plan, which remembers the model's weights and vocabulary if they can be read. Error:
/// as of compileOptions and compileToStage; no NVRTC; a directory that cannot be written or is no plan. Nothing is
/// written then.
Expected<WrittenPlan> writePlan(const PlanRequest &request, const CompileOptions &options, const PlanOutput &output);

/// As --stage calls it: graph, fused, plan, cuda, cubin.
StringRef stageName(Stage stage);

} // namespace kiln
