#include "tools/tune/Tuner.h"

#include "tools/session/Engine.h"
#include "tools/tune/CallTuner.h"
#include "tools/tune/Choosing.h"

#include "ir/Printer.h"
#include "support/Diagnostic.h"
#include "support/Version.h"
#include "support/files/File.h"
#include "templates/TemplateFiles.h"

#include <future>

namespace kiln {

//===----------------------------------------------------------------------===//
// Opening
//===----------------------------------------------------------------------===//

Expected<std::unique_ptr<Tuner>> Tuner::create(const TuneOptions &command, StringRef output) {
  std::unique_ptr<Tuner> tuner(new Tuner(command, output));
  if (Error error = tuner->open())
    return error;
  return tuner;
}

Error Tuner::open() {
  Expected<PipelineOptions> pipeline = pipelineOptions(command.pipeline);
  if (!pipeline)
    return pipeline.takeError();
  pipeline->target = command.target;
  // The products of @decode have settings to measure.
  if (pipeline->decode == "auto")
    pipeline->decode = "graph";
  SourceManager sources;
  if (Error error = openTuning(command.tuning, command.target, sources).moveInto(start))
    return error;
  auto module = compileForTuning(command, *pipeline, command.tuning, sources);
  if (!module)
    return module.takeError();
  Expected<const Target *> target = findTarget(command.target);
  if (!target)
    return target.takeError();
  problems = findProblems(**module, **target, calls((*module)->intAttribute("context", 1024)), command.mostOfBest,
                          command.mostTrials);
  if (problems.empty())
    return makeError("kiln tune: the model has no kernels to measure");
  if (Error error = keepWanted())
    return error;

  EngineOptions options;
  options.checkAccesses = false;
  options.needsKernels = true;
  auto opened = openDevice(command.device, options);
  if (!opened)
    return opened.takeError();
  device = std::move(*opened);
  plans.emplace(command, std::move(*pipeline), output + ".work", start, problems, *device,
                (*module)->intAttribute("layers", 1));
  Expected<KernelTimer> made = KernelTimer::create(*device);
  if (!made)
    return made.takeError();
  timer.emplace(std::move(*made));
  if (command.inCalls)
    return Error::success();
  // After a change of the compiler or the templates, kernels have other times.
  json::Value heading = json::Object{{"compiler", compilerVersion},
                                     {"templates", sha256Hex(textOf(templateFiles()))},
                                     {"device", device->name()},
                                     {"target", command.target},
                                     {"module", sha256Hex(toString(**module))},
                                     {"samples", command.options.samples},
                                     {"warm_up", command.options.warmUpSeconds}};
  auto kept = TuningJournal::open(output + ".partial", formatv("{0}", heading).str(), problems);
  if (!kept)
    return kept.takeError();
  journal.emplace(std::move(*kept));
  done = journal->resumed();
  return Error::success();
}

/// Drops the problems that have none of the parts of --only in their names. Error: a part that no name has.
Error Tuner::keepWanted() {
  auto has = [](const TuningProblem &problem, StringRef part) { return StringRef(problem.name).contains(part); };
  for (StringRef part : command.only)
    if (llvm::none_of(problems, [&](const TuningProblem &problem) { return has(problem, part); }))
      return makeError("kiln tune: --only: expected a part of a problem's name, such as " +
                       StringRef(problems.front().name).split('(').first + ", got " + part);
  llvm::erase_if(problems, [&](const TuningProblem &problem) {
    return !command.only.empty() && llvm::none_of(command.only, [&](StringRef part) { return has(problem, part); });
  });
  return Error::success();
}

/// Calls to tune: prompts of each length alone, the longest in the largest batch, and one token for each batch, halfway
/// through the context.
std::vector<CallShape> Tuner::calls(int64_t context) const {
  int64_t batch = *llvm::max_element(command.batches);
  int64_t longest = std::min(*llvm::max_element(command.lengths), context);
  std::vector<CallShape> calls;
  for (Entry entry : command.entries) {
    if (entry == Entry::Decode) {
      for (int64_t size : command.batches)
        calls.push_back({entry, size, std::max<int64_t>(1, longest / 2)});
      continue;
    }
    for (int64_t length : command.lengths)
      calls.push_back({entry, 1, std::min(length, context)});
    if (batch > 1)
      calls.push_back({entry, batch, longest});
  }
  return calls;
}

//===----------------------------------------------------------------------===//
// Measuring
//===----------------------------------------------------------------------===//

bool Tuner::isUntried(const TuningProblem &problem, size_t round) const {
  return round < problem.trials.size() && problem.trials[round].state == Trial::State::Untried;
}

bool Tuner::isNeeded(size_t round) const {
  return llvm::any_of(problems, [&](const TuningProblem &problem) { return isUntried(problem, round); });
}

/// Keeps the results of the first choices for all steps that have untried trials.
Error Tuner::rememberFirst() {
  std::map<CallShape, std::set<size_t>> steps;
  for (const TuningProblem &problem : problems)
    if (llvm::any_of(problem.trials, [](const Trial &trial) { return trial.state == Trial::State::Untried; }))
      steps[problem.call].insert(problem.step);
  if (steps.empty())
    return Error::success();
  auto executor = plans->open(TrialPlans::firstChoice, "first");
  if (!executor)
    return executor.takeError();
  for (const auto &[call, own] : steps) {
    SampleCall sample((*executor)->plan(), call);
    if (Error error = comparers[call].remember(**executor, sample.call, own))
      return error;
  }
  return Error::success();
}

Error Tuner::measure() {
  if (Error error = rememberFirst())
    return error;
  if (command.inCalls)
    return measureInCalls();
  size_t rounds = 0;
  for (const TuningProblem &problem : problems)
    rounds = std::max(rounds, problem.trials.size());
  std::vector<size_t> needed;
  for (size_t round = 0; round < rounds; ++round)
    if (isNeeded(round))
      needed.push_back(round);
  // Compiles in this thread if no other can be started.
  auto start = [this](size_t round) {
    return std::async(std::launch::async | std::launch::deferred, [this, round] {
      auto choose = [round](const TuningProblem &p) { return &p.trials[round < p.trials.size() ? round : 0]; };
      return plans->compile(choose, "round-" + Twine(round));
    });
  };
  std::future<Expected<CompiledPlan>> next;
  for (size_t i = 0; i < needed.size(); ++i) {
    std::future<Expected<CompiledPlan>> own = i == 0 ? start(needed[0]) : std::move(next);
    Expected<CompiledPlan> compiled = own.get();
    if (i + 1 < needed.size())
      next = start(needed[i + 1]);
    if (Error error = measureRound(needed[i], std::move(compiled))) {
      if (next.valid())
        llvm::consumeError(next.get().takeError());
      return error;
    }
  }
  return Error::success();
}

Error Tuner::measureRound(size_t round, Expected<CompiledPlan> compiled) {
  if (!compiled) {
    // Compiling one by one shows which kernels fail.
    llvm::consumeError(compiled.takeError());
    return measureOneByOne(round);
  }
  auto executor = plans->load(std::move(*compiled));
  if (!executor)
    return executor.takeError();
  return measureWith(**executor, round, [](const TuningProblem &) { return true; });
}

/// Measures each problem of a round alone, after one of the round's kernels failed to compile.
Error Tuner::measureOneByOne(size_t round) {
  for (TuningProblem &problem : problems) {
    if (!isUntried(problem, round))
      continue;
    auto isThis = [&](const TuningProblem &other) { return &other == &problem; };
    auto choose = [&](const TuningProblem &other) { return &other.trials[isThis(other) ? round : 0]; };
    Expected<CompiledPlan> alone =
        plans->compile(choose, "trial-" + Twine(&problem - problems.data()) + "-" + Twine(round));
    if (!alone) {
      problem.trials[round].fail(alone.takeError());
      if (Error error = finish(problem, problem.trials[round]))
        return error;
      continue;
    }
    auto executor = plans->load(std::move(*alone));
    if (!executor)
      return executor.takeError();
    if (Error error = measureWith(**executor, round, isThis))
      return error;
  }
  return Error::success();
}

Error Tuner::measureInCalls() {
  auto check = [this](Executor &executor, const TuningProblem &problem) {
    SampleCall sample(executor.plan(), problem.call);
    // Uploads the arguments, and waits until loading has finished.
    if (Error error = executor.enqueue(sample.call))
      return Expected<std::string>(std::move(error));
    return comparers.find(problem.call)->second.difference(executor, sample.call, problem.step);
  };
  auto ended = [this](const TuningProblem &problem, const Trial &trial) { showProgress(problem, trial); };
  // Another run can start from them: kiln compile --tuning takes the file.
  auto changed = [this] { return writeFile(output + ".partial", database().str()); };
  return CallTuner(problems, *plans, command.options, check, ended, changed).tune();
}

Error Tuner::measureWith(Executor &executor, size_t round, function_ref<bool(const TuningProblem &)> isIn) {
  std::optional<CallShape> loaded;
  for (TuningProblem &problem : problems) {
    if (!isUntried(problem, round) || !isIn(problem))
      continue;
    SampleCall sample(executor.plan(), problem.call);
    // Uploads the arguments, and waits until loading has finished; once per call, since its problems follow each other.
    if (loaded != problem.call)
      if (Error error = executor.enqueue(sample.call))
        return error;
    loaded = problem.call;
    if (Error error = measureTrial(executor, sample.call, problem, problem.trials[round]))
      return error;
  }
  return Error::success();
}

Error Tuner::measureTrial(Executor &executor, const Executor::Call &call, TuningProblem &problem, Trial &trial) {
  Expected<std::string> difference = comparers.find(problem.call)->second.difference(executor, call, problem.step);
  if (!difference)
    return difference.takeError();
  if (!difference->empty()) {
    trial.reject(Trial::State::Wrong, *difference);
    return finish(problem, trial);
  }
  Expected<double> seconds = timeOnce(executor, call, problem.step);
  if (!seconds)
    return seconds.takeError();
  trial.setTime(*seconds);
  return finish(problem, trial);
}

Error Tuner::finish(const TuningProblem &problem, const Trial &trial) {
  if (Error error = journal->add(problem, trial))
    return error;
  showProgress(problem, trial);
  return Error::success();
}

void Tuner::showProgress(const TuningProblem &problem, const Trial &trial) {
  size_t all = 0;
  for (const TuningProblem &each : problems)
    all += each.trials.size();
  ++done;
  if (progress)
    progress(done, all,
             problem.call.str() + " " + trial.choice.family->name +
                 (trial.isRejected() ? ", " + trial.stateName() : StringRef()));
}

/// The median time of one launch, over all launches of the step's kernel in the call.
Expected<double> Tuner::timeOnce(Executor &executor, const Executor::Call &call, size_t step) {
  auto launches = executor.launches(call);
  if (!launches)
    return launches.takeError();
  std::vector<KernelLaunch> own;
  for (const KernelLaunch &launch : *launches)
    if (launch.planned->kernel == (*launches)[step].planned->kernel)
      own.push_back(launch);
  auto count = static_cast<double>(own.size());
  auto samples = timer->time(std::move(own), command.options);
  if (!samples)
    return samples.takeError();
  return Measurement{.what = "", .seconds = std::move(*samples)}.median() / count;
}

//===----------------------------------------------------------------------===//
// The result
//===----------------------------------------------------------------------===//

Error Tuner::choose() {
  auto times = command.inCalls ? compareWithFirst(problems, *plans, command.options)
                               : chooseTrials(problems, *plans, command.options);
  if (!times)
    return times.takeError();
  wholeCalls = std::move(*times);
  return Error::success();
}

TuningDatabase Tuner::database() const {
  TuningDatabase database = start;
  database.device = device->model();
  for (const TuningProblem &problem : problems) {
    const Trial &chosen = problem.trials[problem.chosen];
    if (chosen.state != Trial::State::Timed)
      continue;
    TunedChoice entry{problem.name,  problem.rows, chosen.choice, chosen.seconds, problem.trials[0].seconds,
                      problem.tokens};
    if (command.inCalls) {
      entry.call = problem.call.str();
      auto isOwn = [&](const CallTimes &times) { return times.call == problem.call; };
      if (auto times = llvm::find_if(wholeCalls, isOwn); times != wholeCalls.end()) {
        entry.seconds = times->seconds;
        entry.modelSeconds = times->firstSeconds;
      }
    }
    database.set(std::move(entry));
  }
  return database;
}

Error Tuner::removeFiles() {
  if (Error error = plans->removeFiles())
    return error;
  if (journal)
    return journal->remove();
  if (std::error_code failure = llvm::sys::fs::remove(output + ".partial"))
    return makeFileError(output + ".partial", "cannot remove: " + failure.message());
  return Error::success();
}

} // namespace kiln
