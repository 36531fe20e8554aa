//===- Tuner.h - compiles, checks and times trials ----------------------------===//
//
// Round i compiles the whole model with the i-th trial of every problem and times those kernels, so that a trial runs
// among the weights and buffers that it will run among. The kernels of the next round are compiled meanwhile.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "../CommandLine.h"
#include "../ModelSource.h"
#include "Journal.h"
#include "StepComparer.h"

namespace kiln {

class Tuner {
public:
  /// A tuner of the command, whose device is open and whose problems are known. Files go to OUTPUT.work and the journal
  /// to OUTPUT.partial; trials of an interrupted run are taken from there. Error: what compiling the model and opening
  /// the device report; no kernels of the functions.
  static Expected<std::unique_ptr<Tuner>> create(const TuneCommand &command, StringRef output);

  /// Called after each trial: how many are done, of how many, and what was tried.
  std::function<void(size_t done, size_t all, const Twine &what)> progress;

  /// Measures every trial that the journal does not have. Error: the device, or the journal's file, fails.
  Error measure();

  /// Chooses for every problem the fastest trial, unless the whole call is faster with the model's choice: kernels
  /// overlap, and what one leaves in the caches is the next one's.
  Error choose();

  /// Error: files cannot be removed.
  Error removeFiles();

  ArrayRef<TuningProblem> results() const { return problems; }
  ArrayRef<CallTimes> callTimes() const { return wholeCalls; }
  /// What was chosen for every problem.
  TuningDatabase database() const;

private:
  /// A plan with certain trials, on disk.
  struct Round {
    std::string directory;
    Plan plan;
  };
  using Choose = function_ref<const Trial *(const TuningProblem &)>;

  Tuner(const TuneCommand &command, PipelineOptions pipeline, StringRef output)
      : command(command), pipeline(std::move(pipeline)), output(output) {}

  Error open();
  std::vector<TuningCall> calls(int64_t context) const;
  Expected<std::unique_ptr<Module>> compileModule(StringRef tuning, SourceManager &sources) const;
  Expected<Round> compile(Choose choose, const Twine &name) const;
  Expected<std::unique_ptr<Executor>> load(Round round);

  bool isUntried(const TuningProblem &problem, size_t round) const;
  bool isNeeded(size_t round) const;
  Error measureRound(size_t round, Expected<Round> compiled);
  Error measureOneByOne(size_t round);
  Error measureWith(Executor &executor, size_t round, function_ref<bool(const TuningProblem &)> isIn);
  Error measureTrial(Executor &executor, TuningProblem &problem, Trial &trial);
  Error finish(const TuningProblem &problem, const Trial &trial);
  Expected<double> timeOnce(Executor &executor, const TuningProblem &problem);
  Expected<std::unique_ptr<Executor>> open(Choose choose, const Twine &name);
  Expected<std::pair<double, double>> timeCalls(Executor &first, Executor &second, const TuningCall &call) const;
  Error tryWithout(Executor &best, size_t turn);
  Expected<const StepComparer *> comparer(const TuningCall &call);

  const TuneCommand &command;
  PipelineOptions pipeline;
  std::string output;
  std::unique_ptr<Device> device;
  std::optional<KernelTimer> timer;
  std::unique_ptr<WeightSource> weights;
  std::vector<TuningProblem> problems;
  std::map<std::string, StepComparer> comparers; ///< by call
  std::optional<TuningJournal> journal;
  std::set<TuningProblem *> reverted; ///< by tryWithout
  std::vector<CallTimes> wholeCalls;
  size_t done = 0;
};

} // namespace kiln
