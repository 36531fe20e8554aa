#include "tools/tune/Choosing.h"

#include "tools/tune/CallTiming.h"

namespace kiln {

namespace {

class Chooser {
public:
  Chooser(MutableArrayRef<TuningProblem> problems, const TrialPlans &plans, const BenchmarkOptions &options)
      : problems(problems), plans(plans), options(options) {}

  Error chooseFastest();
  Expected<std::vector<CallTimes>> compareWithFirst();

private:
  Error tryWithout(Executor &best, size_t turn);

  static const Trial *chosenTrial(const TuningProblem &problem) { return &problem.trials[problem.chosen]; }

  MutableArrayRef<TuningProblem> problems;
  const TrialPlans &plans;
  const BenchmarkOptions &options;
  std::set<TuningProblem *> reverted; ///< problems that tryWithout returned to the first choice
};

} // namespace

/// Compares `best` with a plan in which one problem of each call, the turn-th, uses the first choice. Where that plan
/// is faster, the problem goes back to the first choice.
Error Chooser::tryWithout(Executor &best, size_t turn) {
  std::vector<TuningProblem *> tried;
  std::map<CallShape, size_t> seen;
  for (TuningProblem &problem : problems)
    if (problem.chosen != 0 && seen[problem.call]++ == turn)
      tried.push_back(&problem);
  if (tried.empty())
    return Error::success();
  auto choose = [&](const TuningProblem &p) { return &p.trials[llvm::is_contained(tried, &p) ? 0 : p.chosen]; };
  auto without = plans.open(choose, "without-" + Twine(turn));
  if (!without)
    return without.takeError();
  std::vector<TuningProblem *> worse;
  for (TuningProblem *problem : tried) {
    auto times = timeInTurns(best, **without, problem->call, options);
    if (!times)
      return times.takeError();
    auto [withChosen, withModels] = *times;
    if (withModels < withChosen)
      worse.push_back(problem);
  }
  // They are collected, and reverted at the end, so that every turn is compared with the same plan.
  reverted.insert(worse.begin(), worse.end());
  return Error::success();
}

Error Chooser::chooseFastest() {
  size_t most = 0;
  std::map<CallShape, size_t> changed;
  for (TuningProblem &problem : problems) {
    problem.chosen = problem.fastest();
    if (problem.chosen != 0)
      most = std::max(most, ++changed[problem.call]);
  }
  auto best = plans.open(chosenTrial, "best");
  if (!best)
    return best.takeError();
  for (size_t turn = 0; turn < most; ++turn)
    if (Error error = tryWithout(**best, turn))
      return error;
  for (TuningProblem *problem : reverted)
    problem->chosen = 0;
  return Error::success();
}

/// Drops all new choices of a call that is not faster as a whole.
Expected<std::vector<CallTimes>> Chooser::compareWithFirst() {
  auto best = plans.open(chosenTrial, "chosen");
  if (!best)
    return best.takeError();
  auto first = plans.open(TrialPlans::firstChoice, "first");
  if (!first)
    return first.takeError();
  std::vector<CallTimes> wholeCalls;
  for (const TuningProblem &problem : problems) {
    if (llvm::any_of(wholeCalls, [&](const CallTimes &times) { return times.call == problem.call; }))
      continue;
    auto times = timeInTurns(**first, **best, problem.call, options);
    if (!times)
      return times.takeError();
    wholeCalls.push_back({problem.call, times->front(), times->back()});
  }
  for (CallTimes &times : wholeCalls)
    if (times.seconds > times.firstSeconds) {
      times.seconds = times.firstSeconds;
      for (TuningProblem &problem : problems)
        if (problem.call == times.call)
          problem.chosen = 0;
    }
  return wholeCalls;
}

Expected<std::vector<CallTimes>> chooseTrials(MutableArrayRef<TuningProblem> problems, const TrialPlans &plans,
                                              const BenchmarkOptions &options) {
  Chooser chooser(problems, plans, options);
  if (Error error = chooser.chooseFastest())
    return error;
  return chooser.compareWithFirst();
}

Expected<std::vector<CallTimes>> compareWithFirst(MutableArrayRef<TuningProblem> problems, const TrialPlans &plans,
                                                  const BenchmarkOptions &options) {
  return Chooser(problems, plans, options).compareWithFirst();
}

} // namespace kiln
