#include "tools/tune/Problems.h"

#include "kernels/cost/Problem.h"
#include "passes/lower/ChoiceBounds.h"
#include "support/Diagnostic.h"

namespace kiln {

StringRef Trial::stateName() const {
  static constexpr StringRef names[] = {"untried", "timed", "wrong", "failed"};
  return names[static_cast<size_t>(state)];
}

std::string Trial::configuration() const { return (choice.family->name + " " + Attribute(choice.tile).str()).str(); }

void Trial::fail(Error error) {
  std::string text;
  raw_string_ostream os(text);
  for (Diagnostic &diagnostic : takeDiagnostics(std::move(error))) {
    diagnostic.sourceLine.clear();
    diagnostic.print(os);
  }
  reject(State::Failed, StringRef(text).rtrim().str());
}

std::string TuningProblem::bounds() const {
  return std::to_string(rows) + (tokens == 0 ? "" : " of prompts up to " + std::to_string(tokens));
}

std::vector<size_t> TuningProblem::ranking() const {
  std::vector<size_t> order;
  for (const auto &[i, trial] : llvm::enumerate(trials))
    if (trial.state == Trial::State::Timed)
      order.push_back(i);
  // Among equal times the first wins: the first choice, or the one that the model expects to be faster.
  llvm::stable_sort(order, [&](size_t a, size_t b) { return trials[a].seconds < trials[b].seconds; });
  return order;
}

size_t TuningProblem::fastest() const {
  std::vector<size_t> order = ranking();
  return order.empty() ? 0 : order.front();
}

/// How many prompts of the op's module add up in one order.
static int64_t batchInvariantOf(const Op &op) {
  return op.parent()->function()->module().intAttribute(ModuleAttribute::batchInvariant, 1);
}

/// Whether choose-tiles takes a measured choice instead of the model's: where a row's bits must not depend on the rows
/// beside it, not one that adds up in another order.
static bool keepsOrder(const Op &op, const KernelChoice &model, const KernelChoice &other) {
  const KernelForm form = model.family->form;
  const bool keepsForm = hasFixedForm(op, *model.family);
  if (keepsForm && other.family->form != form)
    return false;
  // All configurations of attention to few tokens have one order.
  const bool isFixed = (keepsForm && form != KernelForm::SplitKv) || tokensOfRows(op);
  return !isFixed || batchInvariantOf(op) <= 1 || orderOfSums(op, other) == orderOfSums(op, model);
}

/// What choose-tiles looks up for a call.
static ChoiceBound boundOf(const Op &op, int64_t rows, const CallShape &call) {
  for (ChoiceBound bound : choiceBounds(op, *choiceOf(op).family, batchInvariantOf(op)))
    if (bound.takes(rows, call.tokens())) {
      // Without classes, the bound takes a single prompt and several. What is found for several says nothing of one.
      const bool isOfOne = call.batch == 1 || batchInvariantOf(op) > 1;
      return {bound.rows, isOfOne ? bound.tokens : 0};
    }
  return {rows, 0};
}

/// Trials fit every call of the bound; their times are modelled for this one.
static std::vector<Trial> findTrials(const Op &op, ChoiceBound bound, int64_t rows, int64_t tokens,
                                     const Target &target, double mostOfBest, size_t mostTrials) {
  DimBinding dims = boundsForRows(op, rows, tokens), upper = boundsForRows(op, bound.rows, bound.tokens);
  std::vector<Trial> trials = {{choiceFor(op, rows, tokens)}};
  for (const KernelFamily *family : allKernelFamilies()) {
    if (family->byRequestOnly || !family->runs(op, target, upper))
      continue;
    std::vector<Tile> tiles = family->configurations(op, target, upper);
    if (family->moreToTry)
      llvm::append_range(tiles, family->moreToTry(op, target, upper));
    for (Tile &tile : tiles) {
      KernelChoice choice{family, std::move(tile)};
      if (!(choice == trials.front().choice) && keepsOrder(op, trials.front().choice, choice))
        trials.push_back({std::move(choice)});
    }
  }
  double least = INFINITY;
  for (Trial &trial : trials) {
    trial.modelled = trial.choice.family->estimate(op, trial.choice.tile, target, dims);
    least = std::min(least, trial.modelled);
  }
  llvm::erase_if(trials, [&, model = trials.front().choice](const Trial &trial) {
    return trial.modelled > mostOfBest * least && !(trial.choice == model);
  });
  // Likely ones come first, so that a run that is stopped early has tried them.
  std::stable_sort(trials.begin() + 1, trials.end(),
                   [](const Trial &a, const Trial &b) { return a.modelled < b.modelled; });
  trials.erase(trials.begin() + std::min(trials.size(), mostTrials), trials.end());
  return trials;
}

std::vector<TuningProblem> findProblems(const Module &module, const Target &target, ArrayRef<CallShape> calls,
                                        double mostOfBest, size_t mostTrials) {
  std::vector<TuningProblem> problems;
  std::set<std::tuple<std::string, int64_t, int64_t>> seen; // names and bounds
  auto add = [&](const CallShape &call, bool isAtBound) {
    DimBinding dims = {{module.batchDim()->name, call.batch}, {module.tokensDim()->name, call.tokens()}};
    for (const auto &[step, op] : llvm::enumerate(module.findFunction(call.entry)->body.ops())) {
      if (op->has(Trait::Terminator) || choiceOf(*op).family->form == KernelForm::Library)
        continue;
      const int64_t rows = valueAt(rowsOf(*op), dims);
      const ChoiceBound bound = boundOf(*op, rows, call);
      std::string name = problemName(*op);
      if ((rows == bound.rows) == isAtBound && seen.insert({name, bound.rows, bound.tokens}).second)
        problems.push_back({std::move(name), bound.rows, bound.tokens, call, step,
                            findTrials(*op, bound, rows, call.tokens(), target, mostOfBest, mostTrials)});
    }
  };
  for (bool isAtBound : {true, false})
    for (const CallShape &call : calls)
      add(call, isAtBound);
  // In the order of calls, and of their steps.
  auto place = [&](const TuningProblem &problem) {
    return std::pair(llvm::find(calls, problem.call) - calls.begin(), problem.step);
  };
  llvm::sort(problems, [&](const TuningProblem &a, const TuningProblem &b) { return place(a) < place(b); });
  return problems;
}

} // namespace kiln
