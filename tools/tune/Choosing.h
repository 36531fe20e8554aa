//===- Choosing.h - choosing the trials for the database ------------------===//
#pragma once

#include "tools/tune/TrialPlans.h"

namespace kiln {

/// Chooses the fastest trial for every problem, unless the whole call is faster with the first choice: kernels
/// overlap, and a kernel finds in the caches what earlier ones left there. Returns the time of each call. Error: a
/// failure of the device, or of compiling a plan.
Expected<std::vector<CallTimes>> chooseTrials(MutableArrayRef<TuningProblem> problems, const TrialPlans &plans,
                                              const BenchmarkOptions &options);

/// Returns the time of each call with the trials that are chosen. Calls that are not faster with them get the first
/// choices back. Error: as above.
Expected<std::vector<CallTimes>> compareWithFirst(MutableArrayRef<TuningProblem> problems, const TrialPlans &plans,
                                                  const BenchmarkOptions &options);

} // namespace kiln
