//===- Pipeline.h - the passes that compile a model -------------------------===//
#pragma once

#include "passes/PassManager.h"

namespace kiln {

/// The most that PipelineOptions::batchInvariant may be.
constexpr int64_t mostBatchInvariant = 64;
/// The most that PipelineOptions::draftTokens may be. More have no use: some of them are wrong.
constexpr int64_t mostDraftTokens = 63;

struct PipelineOptions {
  std::string target = "sm_90a";
  std::string dtype = "f32";        ///< as assign-precision takes it
  std::string matmul = "generated"; ///< as select-kernels takes it
  /// What runs the layers of @decode: graph, a kernel for each product and attention; persistent, one kernel for all of
  /// them; auto, the latter where it runs and is faster, unless something below is about kernels or how they start.
  std::string decode = "auto";
  AttributeMap kernels = {};      ///< as select-kernels takes it
  AttributeMap tiles = {};        ///< as choose-tiles takes it
  std::string tuning = "shipped"; ///< as choose-tiles takes it
  int64_t batchInvariant = 8;     ///< as choose-tiles takes it
  int64_t ranks = 1;              ///< GPUs among which the tensors are split
  int64_t draftTokens = 0;        ///< the most guesses that @verify checks for a sequence; 0: no @verify
  /// Passes that are left out.
  std::set<const PassDef *> without = {};
  /// Options of passes besides the above.
  std::map<const PassDef *, AttributeMap> options = {};
  // How the plan is to be run: see Plan::stepByStep, Plan::weightsFirst and Plan::serial.
  bool stepByStep = false, weightsFirst = false, serial = false;
  /// Tensors are `__restrict__` parameters of generated kernels, which needs `serial`.
  bool restrictPointers = false;
  /// Kernels run on every target of the plan, not only on `target`.
  bool portable = false;
  /// The strategy that chose the above, as the user wrote it, for the plan to record; empty: none.
  std::string strategy = {};
};

/// Where compilation can stop: `--stage`. Plan, Cuda and Cubin have run all passes.
enum class Stage { Graph, Fused, Plan, Cuda, Cubin };

/// The passes up to a stage, in order.
std::vector<PassInvocation> pipeline(Stage stage, const PipelineOptions &options);

/// How many of these passes lead to the stage: to the graph, those that split tensors among ranks; to the fused graph,
/// those in front of the first that is about kernels.
size_t endOf(Stage stage, ArrayRef<PassInvocation> passes);

} // namespace kiln
