//===- SamplingFunctions.h - functions of a plan that choose tokens ---------===//
#pragma once

#include "codegen/Generate.h"

namespace kiln {

/// An argument of functions that choose tokens.
struct SamplingArgument {
  std::string name;
  StringRef type; ///< of the pointer in CUDA
  DType dtype;
  SmallVector<Expr, 4> shape;

  std::string parameter() const { return (type + " *" + name).str(); }
  PlanTensor tensor() const { return {name, dtype, shape}; }
};

/// What a kernel needs to choose tokens itself, in blocks of some number of threads.
struct SamplingParts {
  std::vector<std::pair<StringRef, int64_t>> constants; ///< of Config, as in templates/sample/sample.cuh
  std::vector<SamplingArgument> state;                  ///< of the rows, in the order of SequenceState
  SamplingArgument best;                                ///< scratch: the bests of the groups of each row
};
SamplingParts samplingParts(const Plan &plan, int64_t threads);

/// Whether @sample can read the plan's logits: there are entries prefill and decode, and logits are f32.
bool canSample(const Plan &plan);

/// Adds @sample, which chooses each row's next token from the logits of @decode or @prefill; and to a plan with @verify
/// what speculation needs beside it: @ngram, @follow, @collect, @accept and @pretend. Each has one step and one kernel.
/// They are not functions of the module: they read and write the state of a generation, which the runtime binds to
/// their arguments (docs/decisions/0005-sampling-is-a-function-of-the-plan.md). A plan without the entries prefill and
/// decode, or with logits that are not f32, gets none of them.
void addSamplingFunctions(GeneratedPlan &generated);

} // namespace kiln
