//===- Tuner.h - compiles, checks and times trials ----------------------------===//
//
// Round i compiles the whole model with the i-th trial of every problem and times those kernels, so that a trial runs
// among the weights and buffers of the real model. The kernels of the next round are compiled at the same time. Or
// trials are timed within whole calls (CallTuner.h).
//
//===----------------------------------------------------------------------===//
#pragma once

#include "tools/tune/Journal.h"
#include "tools/tune/StepComparer.h"
#include "tools/tune/TrialPlans.h"

namespace kiln {

class Tuner {
public:
  /// Creates a tuner for the command, opens its device and finds its problems. Files go to OUTPUT.work and the journal
  /// to OUTPUT.partial, which also provides the trials of an interrupted run. Error: errors of compiling the model and
  /// opening the device; no kernels in the functions, or none that --only names.
  static Expected<std::unique_ptr<Tuner>> create(const TuneOptions &command, StringRef output);

  /// Called after each trial, with the number of finished trials, the total, and the trial.
  std::function<void(size_t done, size_t all, const Twine &what)> progress;

  /// Measures every trial that is not in the journal; within calls, all, and chooses among them. Error: a failure of
  /// the device or of the journal's file.
  Error measure();

  /// As chooseTrials; within calls, as compareWithFirst.
  Error choose();

  /// Error: files cannot be removed.
  Error removeFiles();

  ArrayRef<TuningProblem> results() const { return problems; }
  ArrayRef<CallTimes> callTimes() const { return wholeCalls; }
  /// The choice for every problem, beside those of the database that the trials started from.
  TuningDatabase database() const;

private:
  Tuner(const TuneOptions &command, StringRef output) : command(command), output(output) {}

  Error open();
  Error keepWanted();
  std::vector<CallShape> calls(int64_t context) const;
  Error rememberFirst();

  bool isUntried(const TuningProblem &problem, size_t round) const;
  bool isNeeded(size_t round) const;
  Error measureRound(size_t round, Expected<CompiledPlan> compiled);
  Error measureOneByOne(size_t round);
  Error measureInCalls();
  Error measureWith(Executor &executor, size_t round, function_ref<bool(const TuningProblem &)> isIn);
  Error measureTrial(Executor &executor, const Executor::Call &call, TuningProblem &problem, Trial &trial);
  Error finish(const TuningProblem &problem, const Trial &trial);
  void showProgress(const TuningProblem &problem, const Trial &trial);
  Expected<double> timeOnce(Executor &executor, const Executor::Call &call, size_t step);

  const TuneOptions &command;
  std::string output;
  TuningDatabase start; ///< what trials start from
  std::unique_ptr<Device> device;
  std::optional<KernelTimer> timer;
  std::vector<TuningProblem> problems;
  std::optional<TrialPlans> plans;
  std::map<CallShape, StepComparer> comparers; ///< by call: the results of the first choices
  std::optional<TuningJournal> journal;        ///< not within calls, where a time depends on what is chosen besides
  std::vector<CallTimes> wholeCalls;
  size_t done = 0;
};

} // namespace kiln
