//===- Choosing.h - which of the measured trials the database gets ------------===//
#pragma once

#include "tools/tune/TrialPlans.h"

namespace kiln {

/// Chooses for every problem the fastest trial, unless the whole call is faster with the model's choice: kernels
/// overlap, and what one leaves in the caches is the next one's. Returns the time of each call. Error: the device, or
/// compiling a plan, fails.
Expected<std::vector<CallTimes>> chooseTrials(MutableArrayRef<TuningProblem> problems, const TrialPlans &plans,
                                              const BenchmarkOptions &options);

} // namespace kiln
