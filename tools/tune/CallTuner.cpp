#include "tools/tune/CallTuner.h"

#include "support/Diagnostic.h"

#include <deque>
#include <thread>

namespace kiln {

/// A trial that made the call slower than this is not timed again when others have changed.
constexpr double hopeless = 1.03;
/// What a trial must gain: less is within what measurements differ by.
constexpr double worthwhile = 0.998;

/// Plans that are compiled at the same time.
static size_t compilersAtOnce() { return std::max(1u, std::thread::hardware_concurrency() / 3); }

Error CallTuner::tune() {
  std::map<CallShape, std::vector<TuningProblem *>> ofCall;
  for (TuningProblem &problem : problems)
    ofCall[problem.call].push_back(&problem);
  for (const auto &[call, own] : ofCall)
    if (Error error = tuneCall(own))
      return error;
  return Error::success();
}

Error CallTuner::tuneCall(ArrayRef<TuningProblem *> own) {
  auto chosen = [](const TuningProblem &problem) { return &problem.trials[problem.chosen]; };
  auto opened = plans.open(chosen, "current");
  if (!opened)
    return opened.takeError();
  current = std::move(*opened);
  Expected<double> seconds = timeCall(*current, own.front()->call, options);
  if (!seconds)
    return seconds.takeError();
  currentSeconds = *seconds;
  for (TuningProblem *problem : own) {
    Trial &trial = problem->trials[problem->chosen];
    trial.state = Trial::State::Timed;
    trial.seconds = currentSeconds;
    ended(*problem, trial);
  }
  // Until all problems but the last that changed have been tried in vain.
  size_t unchanged = 0;
  for (size_t turn = 0; unchanged < own.size(); turn = (turn + 1) % own.size()) {
    const size_t before = own[turn]->chosen;
    if (Error error = improve(*own[turn]))
      return error;
    unchanged = own[turn]->chosen == before ? unchanged + 1 : 1;
  }
  current.reset();
  return Error::success();
}

std::vector<size_t> CallTuner::candidates(const TuningProblem &problem) const {
  std::vector<size_t> all;
  for (const auto &[i, trial] : llvm::enumerate(problem.trials))
    if (i != problem.chosen && !trial.isRejected() &&
        (trial.state == Trial::State::Untried || trial.seconds < hopeless * currentSeconds))
      all.push_back(i);
  return all;
}

/// In a thread of its own, if one can be started.
CallTuner::Compiling CallTuner::startCompiling(const TuningProblem &problem, size_t trial) const {
  return std::async(std::launch::async | std::launch::deferred, [this, &problem, trial] {
    auto choose = [&](const TuningProblem &other) { return &other.trials[&other == &problem ? trial : other.chosen]; };
    return plans.compile(choose, "call-" + Twine(&problem - problems.data()) + "-" + Twine(trial));
  });
}

Expected<std::unique_ptr<Executor>> CallTuner::load(CompiledPlan compiled) const {
  std::string directory = compiled.directory;
  auto executor = plans.load(std::move(compiled));
  llvm::sys::fs::remove_directories(directory);
  return executor;
}

/// Whether the trial has a time.
Expected<bool> CallTuner::timeTrial(TuningProblem &problem, Trial &trial, Expected<CompiledPlan> compiled) {
  const bool isFirst = trial.state == Trial::State::Untried;
  if (!compiled) {
    trial.reject(Trial::State::Failed, reasonOf(compiled.takeError()));
    return false;
  }
  auto executor = load(std::move(*compiled));
  if (!executor)
    return executor.takeError();
  if (isFirst) {
    Expected<std::string> difference = check(**executor, problem);
    if (!difference)
      return difference.takeError();
    if (!difference->empty()) {
      trial.reject(Trial::State::Wrong, *difference);
      return false;
    }
  }
  Expected<double> seconds = timeCall(**executor, problem.call, options);
  if (!seconds)
    return seconds.takeError();
  trial.state = Trial::State::Timed;
  trial.seconds = *seconds;
  return true;
}

/// Times the problem's trials, and takes the fastest if it is faster than what is chosen once more, measured in turns.
Error CallTuner::improve(TuningProblem &problem) {
  const std::vector<size_t> all = candidates(problem);
  std::deque<Compiling> compiling;
  size_t started = 0;
  auto end = [&](Error error) {
    for (Compiling &left : compiling)
      llvm::consumeError(left.get().takeError());
    return error;
  };
  std::optional<size_t> best;
  for (size_t i : all) {
    while (started < all.size() && compiling.size() < compilersAtOnce())
      compiling.push_back(startCompiling(problem, all[started++]));
    Expected<CompiledPlan> compiled = compiling.front().get();
    compiling.pop_front();
    Trial &trial = problem.trials[i];
    const bool isFirst = trial.state == Trial::State::Untried;
    Expected<bool> isTimed = timeTrial(problem, trial, std::move(compiled));
    if (!isTimed)
      return end(isTimed.takeError());
    if (isFirst)
      ended(problem, trial);
    if (*isTimed && (!best || trial.seconds < problem.trials[*best].seconds))
      best = i;
  }
  if (!best || problem.trials[*best].seconds >= worthwhile * currentSeconds)
    return Error::success();
  Expected<CompiledPlan> compiled = startCompiling(problem, *best).get();
  if (!compiled)
    return compiled.takeError();
  auto faster = load(std::move(*compiled));
  if (!faster)
    return faster.takeError();
  auto times = timeInTurns(*current, **faster, problem.call, options);
  if (!times)
    return times.takeError();
  currentSeconds = std::min(times->front(), times->back());
  if (times->back() >= worthwhile * times->front())
    return Error::success();
  problem.chosen = *best;
  problem.trials[*best].seconds = times->back();
  current = std::move(*faster);
  return changed();
}

} // namespace kiln
