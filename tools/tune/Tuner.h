//===- Tuner.h - compiles, checks and times trials ----------------------------===//
//
// Round i compiles the whole model with the i-th trial of every problem and times those kernels, so that a trial runs
// among the weights and buffers that it will run among. The kernels of the next round are compiled meanwhile.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "tools/tune/Journal.h"
#include "tools/tune/StepComparer.h"
#include "tools/tune/TrialPlans.h"

namespace kiln {

class Tuner {
public:
  /// A tuner of the command, whose device is open and whose problems are known. Files go to OUTPUT.work and the journal
  /// to OUTPUT.partial; trials of an interrupted run are taken from there. Error: what compiling the model and opening
  /// the device report; no kernels of the functions.
  static Expected<std::unique_ptr<Tuner>> create(const TuneOptions &command, StringRef output);

  /// Called after each trial: how many are done, of how many, and what was tried.
  std::function<void(size_t done, size_t all, const Twine &what)> progress;

  /// Measures every trial that the journal does not have. Error: the device, or the journal's file, fails.
  Error measure();

  /// As chooseTrials.
  Error choose();

  /// Error: files cannot be removed.
  Error removeFiles();

  ArrayRef<TuningProblem> results() const { return problems; }
  ArrayRef<CallTimes> callTimes() const { return wholeCalls; }
  /// What was chosen for every problem.
  TuningDatabase database() const;

private:
  Tuner(const TuneOptions &command, StringRef output) : command(command), output(output) {}

  Error open();
  std::vector<CallShape> calls(int64_t context) const;
  Error rememberModel();

  bool isUntried(const TuningProblem &problem, size_t round) const;
  bool isNeeded(size_t round) const;
  Error measureRound(size_t round, Expected<CompiledPlan> compiled);
  Error measureOneByOne(size_t round);
  Error measureWith(Executor &executor, size_t round, function_ref<bool(const TuningProblem &)> isIn);
  Error measureTrial(Executor &executor, const Executor::Call &call, TuningProblem &problem, Trial &trial);
  Error finish(const TuningProblem &problem, const Trial &trial);
  Expected<double> timeOnce(Executor &executor, const Executor::Call &call, size_t step);

  const TuneOptions &command;
  std::string output;
  std::unique_ptr<Device> device;
  std::optional<KernelTimer> timer;
  std::vector<TuningProblem> problems;
  std::optional<TrialPlans> plans;
  std::map<CallShape, StepComparer> comparers; ///< what the model's choices leave
  std::optional<TuningJournal> journal;
  std::vector<CallTimes> wholeCalls;
  size_t done = 0;
};

} // namespace kiln
