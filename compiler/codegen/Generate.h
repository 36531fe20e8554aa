//===- Generate.h - from a planned module to sources and a plan -------------===//
#pragma once

#include "ir/IR.h"
#include "plan/Plan.h"

namespace kiln {

/// A kernel's .cu, complete but for what it includes.
struct KernelSource {
  std::string name;
  std::string text;

  std::string fileName() const { return name + ".cu"; }
};

struct GeneratedPlan {
  Plan plan;                         ///< without NVRTC's part: cubins, resources
  std::vector<KernelSource> sources; ///< one for each of plan.kernels, in their order
};

/// What a plan of the module says of the model. The front end gives it; IR text without it has the least that is valid.
PlanModelInfo modelInfo(const Module &module);

/// Writes the CUDA of every kernel and the plan of a module that has run the whole pipeline. Kernels of equal text are
/// one kernel. The same module gives the same bytes. Error: as checkPlanned, about a module that has not run all of it;
/// as writeKernel; what the plan's reader would refuse.
Expected<GeneratedPlan> generate(const Module &module);

/// A source with everything that it includes, which `nvcc -c` accepts alone.
std::string selfContained(const KernelSource &source);

} // namespace kiln
