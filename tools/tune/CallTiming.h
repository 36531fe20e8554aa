//===- CallTiming.h - times of whole calls ----------------------------------===//
#pragma once

#include "runtime/execution/Executor.h"
#include "runtime/measure/Benchmark.h"

namespace kiln {

/// Seconds with each of two plans.
using TimePair = std::array<double, 2>;

/// The median time of a call. A token of decode is timed with a short cache and with a long one, since how attention
/// overlaps with its neighbours depends on that: the mean of both. Error: a failure of the device.
Expected<double> timeCall(Executor &executor, const CallShape &call, const BenchmarkOptions &options);

/// The same of two plans, measured in turns: the least of three medians for each. Error: a failure of the device.
Expected<TimePair> timeInTurns(Executor &first, Executor &second, const CallShape &call,
                               const BenchmarkOptions &options);

} // namespace kiln
