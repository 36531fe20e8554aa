//===- CallTuner.h - timing trials within whole calls -----------------------===//
//
// A kernel that is the fastest alone need not be so in a call, where its weights are on their way while the kernel in
// front still runs, if the blocks of both have room on a multiprocessor. So the trials of a problem are timed in whole
// calls: coordinate descent over the problems of a call, from the first choices on, until no trial of any problem
// makes the call faster.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "tools/tune/CallTiming.h"
#include "tools/tune/TrialPlans.h"

#include <future>

namespace kiln {

class CallTuner {
public:
  /// Describes the first result of the problem's step that is wrong; empty: none is.
  using Check = std::function<Expected<std::string>(Executor &, const TuningProblem &)>;
  /// Called when a trial has its first time, or is rejected.
  using Ended = std::function<void(const TuningProblem &, const Trial &)>;
  /// Called when another trial was chosen for a problem.
  using Changed = std::function<Error()>;

  /// Arguments that are passed by reference must outlive the tuner.
  CallTuner(MutableArrayRef<TuningProblem> problems, const TrialPlans &plans, const BenchmarkOptions &options,
            Check check, Ended ended, Changed changed)
      : problems(problems), plans(plans), options(options), check(std::move(check)), ended(std::move(ended)),
        changed(std::move(changed)) {}

  /// Chooses a trial for each problem. The seconds of a trial are those of the whole call. Error: a failure of the
  /// device, of compiling the first choices, or of a callback.
  Error tune();

private:
  using Compiling = std::future<Expected<CompiledPlan>>;

  Error tuneCall(ArrayRef<TuningProblem *> own);
  Error improve(TuningProblem &problem);
  std::vector<size_t> candidates(const TuningProblem &problem) const;
  Compiling startCompiling(const TuningProblem &problem, size_t trial) const;
  Error timeTrial(TuningProblem &problem, Trial &trial, Expected<CompiledPlan> compiled);
  Expected<std::optional<size_t>> fastestCandidate(TuningProblem &problem);

  MutableArrayRef<TuningProblem> problems;
  const TrialPlans &plans;
  const BenchmarkOptions &options;
  Check check;
  Ended ended;
  Changed changed;
  std::unique_ptr<Executor> current; ///< with the trials that are chosen now
  double currentSeconds = 0;
};

} // namespace kiln
