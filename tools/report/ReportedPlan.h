//===- ReportedPlan.h - a plan with all data of its report ----------------===//
#pragma once

#include "tools/report/Profile.h"

#include "ir/IR.h"
#include "kernels/targets/Target.h"
#include "runtime/measure/Benchmark.h"

namespace kiln {

/// The costs of a kernel, or of a library in its place, in one call of a function.
struct KernelUse {
  Measurement count; ///< without times; `what` is the kernel
  double rooflineSeconds = 0;
  std::optional<double> seconds;       ///< measured, if the profile has it
  std::vector<PhaseShare> phases = {}; ///< likewise
};

/// One call of a function at the report's dims.
struct FunctionUse {
  const PlanFunction *function = nullptr;
  DimBinding dims;   ///< every dim of the plan
  std::string label; ///< `@prefill, B = 1, T = 64`
  std::vector<KernelUse> kernels;
  KernelUse total; ///< measured only if every kernel is

  int64_t value(const Expr &expr) const; ///< at `dims`
};

struct ReportedPlan {
  std::string directory;
  Plan plan;
  const Target *target = nullptr;
  SourceManager sources;                      ///< of the modules
  std::unique_ptr<Module> graph, planned;     ///< before passes, and with kernels
  std::map<std::string, std::string> kernels; ///< CUDA source by kernel
  std::optional<Profile> profile;
  int64_t batch = 1, length = 1;
  std::vector<FunctionUse> functions; ///< as in the plan

  /// The IR of a function with kernels, its ops in the order of steps; null for a function that has none.
  const Function *plannedFunction(StringRef name) const;
  const FunctionUse *findUse(StringRef function) const;
  /// What ptxas reported about a kernel for the target, or for another target if this one has no cubin; or null.
  const KernelResources *resources(const PlanKernel &kernel) const;
};

/// The input of a report. Sizes that are left out come from the profile, else they are one sequence of 64 tokens.
struct ReportRequest {
  std::string plan, profile;
  std::optional<int64_t> batch, length;
};

/// Reads everything. Error: errors of the plan, its IR or sources, or of the profile; dims past the plan's bounds; dims
/// for which the profile has no rows.
Expected<std::unique_ptr<ReportedPlan>> readReportedPlan(const ReportRequest &request);

} // namespace kiln
