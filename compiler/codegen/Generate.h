//===- Generate.h - sources and a plan from a planned module --------------===//
#pragma once

#include "ir/IR.h"
#include "plan/Plan.h"

namespace kiln {

/// A kernel's .cu file, complete except for the headers that it includes.
struct KernelSource {
  std::string name;
  std::string text;

  std::string fileName() const { return name + ".cu"; }
};

struct GeneratedPlan {
  Plan plan;                         ///< without what NVRTC adds: cubins and resources
  std::vector<KernelSource> sources; ///< one for each of plan.kernels, in their order
};

/// What a plan of the module says about the model. The front end provides it; for IR text without it, the smallest
/// valid description.
PlanModelInfo modelInfo(const Module &module);

/// Writes the CUDA of every kernel and the plan of a module that has run the whole pipeline. Kernels with equal text
/// become one kernel. The same module gives the same bytes. Error: those of checkPlanned, for a module on which some
/// pass has not run; those of writeKernel; a plan that its reader would refuse.
Expected<GeneratedPlan> generate(const Module &module);

/// A source with all its includes expanded, which `nvcc -c` accepts on its own.
std::string selfContained(const KernelSource &source);

} // namespace kiln
