#include "tools/tune/Report.h"

#include "support/text/Markdown.h"

namespace kiln {

static size_t countOf(const TuningProblem &problem, Trial::State state) {
  return llvm::count_if(problem.trials, [&](const Trial &trial) { return trial.state == state; });
}

/// Within calls, a trial may be chosen that was not the fastest when it was timed first.
static std::string chosenText(const TuningProblem &problem) {
  if (problem.chosen == 0)
    return "the first";
  return problem.chosen == problem.fastest() ? "the fastest" : problem.trials[problem.chosen].configuration();
}

static void printProblems(raw_ostream &os, ArrayRef<TuningProblem> problems) {
  os << "| problem | rows | trials | wrong | failed | first (µs) | its rank | best (µs) | gain | worst (µs) | chosen | "
        "fastest |\n|---|---|---|---|---|---|---|---|---|---|---|---|\n";
  for (const TuningProblem &problem : problems) {
    std::vector<size_t> ranking = problem.ranking();
    const Trial &first = problem.trials.front(), &best = problem.trials[problem.fastest()];
    size_t rank = llvm::count_if(ranking, [&](size_t i) { return problem.trials[i].seconds < first.seconds; }) + 1;
    double worst = ranking.empty() ? 0 : problem.trials[ranking.back()].seconds;
    os << formatv("| {0} | {1} | {2} | {3} | {4} | {5:F2} | {6} | {7:F2} | {8:F1} % | {9:F2} | {10} | {11} |\n",
                  problem.name, problem.bounds(), problem.trials.size(), countOf(problem, Trial::State::Wrong),
                  countOf(problem, Trial::State::Failed), first.seconds * 1e6, rank, best.seconds * 1e6,
                  best.seconds > 0 ? (first.seconds / best.seconds - 1) * 100 : 0, worst * 1e6, chosenText(problem),
                  best.configuration());
  }
}

/// Prints why trials were dropped; prints nothing if none were.
static void printRejected(raw_ostream &os, ArrayRef<TuningProblem> problems) {
  bool isFirst = true;
  for (const TuningProblem &problem : problems)
    for (const Trial &trial : problem.trials) {
      if (!trial.isRejected())
        continue;
      if (isFirst)
        os << "\n| problem | rows | dropped trial | | why |\n|---|---|---|---|---|\n";
      isFirst = false;
      os << formatv("| {0} | {1} | {2} | {3} | {4} |\n", problem.name, problem.bounds(), trial.configuration(),
                    trial.stateName(), tableCell(trial.reason));
    }
}

/// Prints, for each value of a setting, the geometric mean over problems of: the best time with that value over the
/// best time of the family.
static void printSettings(raw_ostream &os, ArrayRef<TuningProblem> problems) {
  struct Mean {
    double logs = 0;
    int64_t count = 0;
  };
  std::map<std::pair<std::string, std::string>, std::map<int64_t, Mean>>
      settings; // value -> mean, by family and setting
  for (const TuningProblem &problem : problems) {
    std::map<std::pair<std::string, std::string>, std::map<int64_t, double>> least;
    std::map<std::string, double> leastOfFamily;
    for (size_t i : problem.ranking()) {
      const Trial &trial = problem.trials[i];
      std::string family = trial.choice.family->name.str();
      auto take = [&](double &value) { value = value == 0 ? trial.seconds : std::min(value, trial.seconds); };
      take(leastOfFamily[family]);
      for (const auto &[name, value] : trial.choice.tile)
        if (value.kind() == Attribute::Kind::Int)
          take(least[{family, name}][value.asInt()]);
    }
    for (const auto &[key, values] : least)
      for (const auto &[value, seconds] : values) {
        Mean &mean = settings[key][value];
        mean.logs += std::log(seconds / leastOfFamily[key.first]);
        ++mean.count;
      }
  }
  os << "\n| family | setting | time of its values' best, over the family's best |\n|---|---|---|\n";
  for (const auto &[key, values] : settings) {
    if (values.size() < 2)
      continue;
    std::vector<std::string> texts;
    for (const auto &[value, mean] : values)
      texts.push_back(formatv("{0}: {1:F2}", value, std::exp(mean.logs / static_cast<double>(mean.count))).str());
    os << "| " << key.first << " | " << key.second << " | " << llvm::join(texts, ", ") << " |\n";
  }
}

static void printCalls(raw_ostream &os, ArrayRef<CallTimes> calls) {
  os << "| call | first choices (µs) | chosen (µs) | gain |\n|---|---|---|---|\n";
  for (const CallTimes &times : calls)
    os << formatv("| {0} | {1:F2} | {2:F2} | {3:F1} % |\n", times.call.str(), times.firstSeconds * 1e6,
                  times.seconds * 1e6, (times.firstSeconds / times.seconds - 1) * 100);
  os << '\n';
}

void printTuningReport(raw_ostream &os, ArrayRef<CallTimes> calls, ArrayRef<TuningProblem> problems) {
  printCalls(os, calls);
  printProblems(os, problems);
  printRejected(os, problems);
  printSettings(os, problems);
}

} // namespace kiln
