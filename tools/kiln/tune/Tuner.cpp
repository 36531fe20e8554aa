#include "Tuner.h"

#include "../Engine.h"

#include "codegen/CompilePlan.h"
#include "ir/Printer.h"
#include "nvrtc/CubinCompiler.h"
#include "runtime/RandomCheckpoint.h"
#include "runtime/cuda/CudaDevice.h"
#include "support/Diagnostic.h"
#include "support/File.h"

#include <future>

namespace kiln {

namespace {

/// Tensors of random weights, made once: what they are does not matter for the time of a kernel.
class KeptWeights : public WeightSource {
public:
  explicit KeptWeights(int64_t layers) : source(1, layers) {}
  bool has(StringRef name) const override { return source.has(name); }
  Expected<TensorView> tensor(StringRef name, ArrayRef<int64_t> shape) const override {
    std::lock_guard lock(mutex);
    if (auto it = kept.find(name); it != kept.end())
      return it->second;
    Expected<TensorView> made = source.tensor(name, shape);
    if (made)
      kept.insert_or_assign(name.str(), *made);
    return made;
  }

private:
  RandomCheckpoint source;
  mutable std::mutex mutex;
  mutable std::map<std::string, TensorView, std::less<>> kept;
};

int64_t attribute(const Module &module, StringRef name, int64_t otherwise) {
  auto it = module.attributes.find(name);
  return it == module.attributes.end() ? otherwise : it->second.asInt();
}

} // namespace

//===----------------------------------------------------------------------===//
// Opening
//===----------------------------------------------------------------------===//

Expected<std::unique_ptr<Tuner>> Tuner::create(const TuneCommand &command, StringRef output) {
  Expected<PipelineOptions> pipeline = pipelineOptions(command.pipeline);
  if (!pipeline)
    return pipeline.takeError();
  pipeline->target = command.target;
  std::unique_ptr<Tuner> tuner(new Tuner(command, std::move(*pipeline), output));
  if (Error error = tuner->open())
    return error;
  return tuner;
}

Error Tuner::open() {
  SourceManager sources;
  auto module = compileModule("none", sources);
  if (!module)
    return module.takeError();
  Expected<const Target *> target = findTarget(command.target);
  if (!target)
    return target.takeError();
  problems = findProblems(**module, **target, calls(attribute(**module, "context", 1024)), command.mostOfBest,
                          command.mostTrials);
  if (problems.empty())
    return makeError("kiln tune: the model has no kernels to measure");
  weights = std::make_unique<KeptWeights>(attribute(**module, "layers", 1));

  StringRef name = command.device == "auto" ? "cuda:0" : StringRef(command.device);
  EngineOptions options;
  options.checkAccesses = false;
  auto opened = openDevice(name, options);
  if (!opened)
    return opened.takeError();
  device = std::move(*opened);
  Expected<KernelTimer> made = KernelTimer::create(*device);
  if (!made)
    return made.takeError();
  timer.emplace(std::move(*made));
  json::Value heading = json::Object{{"device", device->name()},
                                     {"target", command.target},
                                     {"module", sha256Hex(toString(**module))},
                                     {"samples", command.options.samples}};
  auto kept = TuningJournal::open(output + ".partial", formatv("{0}", heading).str(), problems);
  if (!kept)
    return kept.takeError();
  journal.emplace(std::move(*kept));
  done = journal->resumed();
  return Error::success();
}

/// Prompts of each length alone and the longest in the largest batch; one token for each batch, halfway.
std::vector<TuningCall> Tuner::calls(int64_t context) const {
  int64_t batch = *llvm::max_element(command.batches);
  int64_t longest = std::min(*llvm::max_element(command.lengths), context);
  std::vector<TuningCall> calls;
  for (const std::string &function : command.functions) {
    if (function == "decode") {
      for (int64_t size : command.batches)
        calls.push_back({function, size, std::max<int64_t>(1, longest / 2)});
      continue;
    }
    for (int64_t length : command.lengths)
      calls.push_back({function, 1, std::min(length, context)});
    if (batch > 1)
      calls.push_back({function, batch, longest});
  }
  return calls;
}

Expected<std::unique_ptr<Module>> Tuner::compileModule(StringRef tuning, SourceManager &sources) const {
  CompileOptions options;
  options.pipeline = pipeline;
  options.pipeline.tuning = tuning.str();
  options.build.maxBatch = *llvm::max_element(command.batches);
  return compileToStage(command.model, Stage::Plan, options, sources);
}

Expected<Tuner::Round> Tuner::compile(Choose choose, const Twine &name) const {
  TuningDatabase database;
  database.target = command.target;
  for (const TuningProblem &problem : problems)
    database.set({problem.name, problem.rows, choose(problem)->choice});
  std::string path = (output + ".work/" + name).str();
  if (Error error = writeFiles(output + ".work", {{(name + ".toml").str(), database.str()}}))
    return error;
  SourceManager sources;
  auto module = compileModule(path + ".toml", sources);
  if (!module)
    return module.takeError();
  Expected<GeneratedPlan> generated = generate(**module);
  if (!generated)
    return generated.takeError();
  CubinOptions options;
  options.targets = {command.target};
  options.cacheDirectory = defaultCacheDirectory();
  auto cubins = compileCubins(*generated, options);
  if (!cubins)
    return cubins.takeError();
  if (Error error = writePlanDirectory(path + ".plan", *generated, *cubins, {}))
    return error;
  return Round{path + ".plan", std::move(generated->plan)};
}

Expected<std::unique_ptr<Executor>> Tuner::load(Round round) {
  Executor::Options capacity{*llvm::max_element(command.batches), round.plan.model.context, command.functions};
  return Executor::create(*device, std::move(round.plan), {round.directory, ""}, *weights, capacity);
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

Error Tuner::measure() {
  size_t rounds = 0;
  for (const TuningProblem &problem : problems)
    rounds = std::max(rounds, problem.trials.size());
  std::vector<size_t> needed;
  for (size_t round = 0; round < rounds; ++round)
    if (isNeeded(round))
      needed.push_back(round);
  auto start = [this](size_t round) {
    return std::async(std::launch::async, [this, round] {
      auto choose = [round](const TuningProblem &p) { return &p.trials[round < p.trials.size() ? round : 0]; };
      return compile(choose, "round-" + Twine(round));
    });
  };
  std::future<Expected<Round>> next;
  for (size_t i = 0; i < needed.size(); ++i) {
    std::future<Expected<Round>> own = i == 0 ? start(needed[0]) : std::move(next);
    Expected<Round> compiled = own.get();
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

Error Tuner::measureRound(size_t round, Expected<Round> compiled) {
  if (!compiled) {
    llvm::consumeError(compiled.takeError());
    return measureOneByOne(round);
  }
  std::string directory = compiled->directory;
  auto executor = load(std::move(*compiled));
  if (!executor)
    return executor.takeError();
  Error error = measureWith(**executor, round, [](const TuningProblem &) { return true; });
  llvm::sys::fs::remove_directories(directory);
  return error;
}

/// One of the round's kernels cannot be compiled.
Error Tuner::measureOneByOne(size_t round) {
  for (TuningProblem &problem : problems) {
    if (!isUntried(problem, round))
      continue;
    auto isThis = [&](const TuningProblem &other) { return &other == &problem; };
    auto choose = [&](const TuningProblem &other) { return &other.trials[isThis(other) ? round : 0]; };
    Expected<Round> alone = compile(choose, "trial-" + Twine(&problem - problems.data()) + "-" + Twine(round));
    if (!alone) {
      llvm::consumeError(alone.takeError());
      problem.trials[round].state = Trial::State::Failed;
      if (Error error = finish(problem, problem.trials[round]))
        return error;
      continue;
    }
    auto executor = load(std::move(*alone));
    if (!executor)
      return executor.takeError();
    if (Error error = measureWith(**executor, round, isThis))
      return error;
  }
  return Error::success();
}

Error Tuner::measureWith(Executor &executor, size_t round, function_ref<bool(const TuningProblem &)> isIn) {
  for (TuningProblem &problem : problems)
    if (isUntried(problem, round) && isIn(problem))
      if (Error error = measureTrial(executor, problem, problem.trials[round]))
        return error;
  return Error::success();
}

Error Tuner::measureTrial(Executor &executor, TuningProblem &problem, Trial &trial) {
  Expected<const StepComparer *> known = comparer(problem.call);
  if (!known)
    return known.takeError();
  SampleCall sample(problem.call.function, problem.call.batch, problem.call.length, problem.call.length);
  // Uploads arguments, and finishes loading.
  if (Error error = executor.enqueue(sample.call))
    return error;
  Expected<bool> agrees = (*known)->agrees(executor, sample.call, problem.step);
  if (!agrees)
    return agrees.takeError();
  trial.state = Trial::State::Wrong;
  if (*agrees) {
    Expected<double> seconds = timeOnce(executor, problem);
    if (!seconds)
      return seconds.takeError();
    trial.seconds = *seconds;
    trial.state = Trial::State::Timed;
  }
  return finish(problem, trial);
}

Error Tuner::finish(const TuningProblem &problem, const Trial &trial) {
  size_t all = 0;
  for (const TuningProblem &each : problems)
    all += each.trials.size();
  if (Error error = journal->add(problem, trial))
    return error;
  ++done;
  if (progress)
    progress(done, all, problem.call.str() + " " + trial.choice.family->name);
  return Error::success();
}

/// The median time of one launch, of all that the call has of the problem's kernel.
Expected<double> Tuner::timeOnce(Executor &executor, const TuningProblem &problem) {
  SampleCall sample(problem.call.function, problem.call.batch, problem.call.length, problem.call.length);
  auto launches = executor.launches(sample.call);
  if (!launches)
    return launches.takeError();
  std::vector<KernelLaunch> own;
  for (const KernelLaunch &launch : *launches)
    if (launch.planned->kernel == (*launches)[problem.step].planned->kernel)
      own.push_back(launch);
  auto count = static_cast<double>(own.size());
  auto samples = timer->time(std::move(own), command.options);
  if (!samples)
    return samples.takeError();
  return Measurement{.what = "", .seconds = std::move(*samples)}.median() / count;
}

/// What the model's choices leave in the steps of a call; runs them the first time.
Expected<const StepComparer *> Tuner::comparer(const TuningCall &call) {
  auto [it, isNew] = comparers.try_emplace(call.str());
  if (!isNew)
    return &it->second;
  Expected<Round> compiled = compile([](const TuningProblem &problem) { return &problem.trials[0]; }, "model");
  if (!compiled)
    return compiled.takeError();
  auto executor = load(std::move(*compiled));
  if (!executor)
    return executor.takeError();
  std::set<size_t> steps;
  for (const TuningProblem &problem : problems)
    if (problem.call.str() == call.str())
      steps.insert(problem.step);
  SampleCall sample(call.function, call.batch, call.length, call.length);
  if (Error error = it->second.remember(**executor, sample.call, steps))
    return error;
  return &it->second;
}

//===----------------------------------------------------------------------===//
// The result
//===----------------------------------------------------------------------===//

Expected<std::unique_ptr<Executor>> Tuner::open(Choose choose, const Twine &name) {
  Expected<Round> compiled = compile(choose, name);
  if (!compiled)
    return compiled.takeError();
  return load(std::move(*compiled));
}

/// The least of three medians of each, measured in turns.
Expected<std::pair<double, double>> Tuner::timeCalls(Executor &first, Executor &second, const TuningCall &call) const {
  double least[2] = {INFINITY, INFINITY};
  bool isDecode = call.function == "decode";
  for (int turn = 0; turn < 6; ++turn) {
    auto measured = measureCall(turn % 2 ? second : first, call.function, call.batch, isDecode ? 1 : call.length,
                                isDecode ? call.length : 0, command.options);
    if (!measured)
      return measured.takeError();
    least[turn % 2] = std::min(least[turn % 2], measured->median());
  }
  return std::pair(least[0], least[1]);
}

/// Compares `best` with a plan in which one problem of each call, the turn-th, has the model's choice again, and goes
/// back to that where the call is faster.
Error Tuner::tryWithout(Executor &best, size_t turn) {
  std::vector<TuningProblem *> tried;
  std::map<std::string, size_t> seen;
  for (TuningProblem &problem : problems)
    if (problem.chosen != 0 && seen[problem.call.str()]++ == turn)
      tried.push_back(&problem);
  if (tried.empty())
    return Error::success();
  auto choose = [&](const TuningProblem &p) { return &p.trials[llvm::is_contained(tried, &p) ? 0 : p.chosen]; };
  auto without = open(choose, "without-" + Twine(turn));
  if (!without)
    return without.takeError();
  std::vector<TuningProblem *> worse;
  for (TuningProblem *problem : tried) {
    auto times = timeCalls(best, **without, problem->call);
    if (!times)
      return times.takeError();
    if (times->second < times->first)
      worse.push_back(problem);
  }
  // All of them at the end, so that every turn is compared with the same plan.
  for (TuningProblem *problem : worse)
    reverted.insert(problem);
  return Error::success();
}

Error Tuner::choose() {
  size_t most = 0;
  std::map<std::string, size_t> changed;
  for (TuningProblem &problem : problems) {
    problem.chosen = problem.fastest();
    if (problem.chosen != 0)
      most = std::max(most, ++changed[problem.call.str()]);
  }
  auto chooseChosen = [](const TuningProblem &problem) { return &problem.trials[problem.chosen]; };
  auto best = open(chooseChosen, "best");
  if (!best)
    return best.takeError();
  for (size_t turn = 0; turn < most; ++turn)
    if (Error error = tryWithout(**best, turn))
      return error;
  for (TuningProblem *problem : reverted)
    problem->chosen = 0;
  best = open(chooseChosen, "chosen");
  if (!best)
    return best.takeError();
  auto model = open([](const TuningProblem &problem) { return &problem.trials[0]; }, "model");
  if (!model)
    return model.takeError();
  for (const TuningProblem &problem : problems) {
    if (llvm::any_of(wholeCalls, [&](const CallTimes &times) { return times.call.str() == problem.call.str(); }))
      continue;
    auto times = timeCalls(**model, **best, problem.call);
    if (!times)
      return times.takeError();
    wholeCalls.push_back({problem.call, times->first, times->second});
  }
  // What is not better as a whole is not taken at all.
  for (CallTimes &times : wholeCalls)
    if (times.seconds > times.modelSeconds) {
      times.seconds = times.modelSeconds;
      for (TuningProblem &problem : problems)
        if (problem.call.str() == times.call.str())
          problem.chosen = 0;
    }
  return Error::success();
}

TuningDatabase Tuner::database() const {
  TuningDatabase database;
  database.target = command.target;
  database.device = device->name();
  for (const TuningProblem &problem : problems)
    if (const Trial &chosen = problem.trials[problem.chosen]; chosen.state == Trial::State::Timed)
      database.set({problem.name, problem.rows, chosen.choice, chosen.seconds, problem.trials[0].seconds});
  return database;
}

Error Tuner::removeFiles() {
  if (std::error_code failure = llvm::sys::fs::remove_directories(output + ".work", /*IgnoreErrors=*/false))
    return makeFileError(output + ".work", "cannot remove: " + failure.message());
  return journal->remove();
}

} // namespace kiln
