#include "tools/tune/CallTuner.h"

#include <deque>
#include <thread>

namespace kiln {

/// A trial that made the call slower than this is not timed again when others have changed.
constexpr double hopeless = 1.03;
/// What a trial must gain: less is within what measurements differ by.
constexpr double worthwhile = 0.998;
/// The most times that the problems of a call are gone through: measurements differ, so that two trials might take
/// turns without end.
constexpr size_t mostPasses = 5;

/// Plans that are compiled at the same time. Each has threads of its own for its kernels, but finds all except the
/// trial's in the cache; and the thread that measures must not wait for a core.
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
    trial.setTime(currentSeconds);
    ended(*problem, trial);
  }
  // Until all problems but the last that changed have been tried in vain.
  size_t unchanged = 0;
  for (size_t turn = 0; unchanged < own.size() && turn < mostPasses * own.size(); ++turn) {
    TuningProblem &problem = *own[turn % own.size()];
    const size_t before = problem.chosen;
    if (Error error = improve(problem))
      return error;
    unchanged = problem.chosen == before ? unchanged + 1 : 1;
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

Error CallTuner::timeTrial(TuningProblem &problem, Trial &trial, Expected<CompiledPlan> compiled) {
  if (!compiled) {
    trial.fail(compiled.takeError());
    return Error::success();
  }
  auto executor = plans.load(std::move(*compiled));
  if (!executor)
    return executor.takeError();
  if (trial.state == Trial::State::Untried) {
    Expected<std::string> difference = check(**executor, problem);
    if (!difference)
      return difference.takeError();
    if (!difference->empty()) {
      trial.reject(Trial::State::Wrong, *difference);
      return Error::success();
    }
  }
  Expected<double> seconds = timeCall(**executor, problem.call, options);
  if (!seconds)
    return seconds.takeError();
  trial.setTime(*seconds);
  return Error::success();
}

/// Times the problem's candidates. Returns the fastest; none if no candidate has a time.
Expected<std::optional<size_t>> CallTuner::fastestCandidate(TuningProblem &problem) {
  const std::vector<size_t> all = candidates(problem);
  std::deque<Compiling> compiling;
  size_t started = 0;
  std::optional<size_t> best;
  for (size_t i : all) {
    while (started < all.size() && compiling.size() < compilersAtOnce())
      compiling.push_back(startCompiling(problem, all[started++]));
    Expected<CompiledPlan> compiled = compiling.front().get();
    compiling.pop_front();
    Trial &trial = problem.trials[i];
    const bool isFirst = trial.state == Trial::State::Untried;
    if (Error error = timeTrial(problem, trial, std::move(compiled))) {
      for (Compiling &left : compiling)
        llvm::consumeError(left.get().takeError());
      return error;
    }
    if (isFirst)
      ended(problem, trial);
    if (!trial.isRejected() && (!best || trial.seconds < problem.trials[*best].seconds))
      best = i;
  }
  return best;
}

/// Takes the fastest trial of the problem if it is faster than what is chosen once more, measured in turns.
Error CallTuner::improve(TuningProblem &problem) {
  Expected<std::optional<size_t>> best = fastestCandidate(problem);
  if (!best)
    return best.takeError();
  if (!*best || problem.trials[**best].seconds >= worthwhile * currentSeconds)
    return Error::success();
  Expected<CompiledPlan> compiled = startCompiling(problem, **best).get();
  if (!compiled)
    return compiled.takeError();
  auto faster = plans.load(std::move(*compiled));
  if (!faster)
    return faster.takeError();
  auto times = timeInTurns(*current, **faster, problem.call, options);
  if (!times)
    return times.takeError();
  currentSeconds = std::min(times->front(), times->back());
  if (times->back() >= worthwhile * times->front())
    return Error::success();
  problem.chosen = **best;
  problem.trials[**best].seconds = times->back();
  current = std::move(*faster);
  return changed();
}

} // namespace kiln
