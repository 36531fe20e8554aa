#include "plan/FunctionChecks.h"

#include "plan/ArenaChecks.h"

namespace kiln {

namespace {

class FunctionChecker {
public:
  FunctionChecker(const Plan &plan, const PlanFunction &function, Place place, const FormulaChecks &formulas,
                  const FormulaChecks &costs, const TensorMemories &globals)
      : plan(plan), function(function), place(place), formulas(formulas), costs(costs), tensors(globals) {}

  Error check() {
    for (const auto &[i, argument] : llvm::enumerate(function.arguments))
      if (Error error = checkTensor(place["arguments"][i], argument))
        return error;
    for (auto [key, expr] : {std::pair("arena", &function.arena), std::pair("live", &function.live)})
      if (Error error = formulas.checkRange(place[key], *expr, 0))
        return error;
    for (size_t i = 0; i < function.buffers.size(); ++i)
      if (Error error = checkBuffer(i))
        return error;
    for (size_t i = 0; i < function.results.size(); ++i)
      if (Error error = checkResult(i))
        return error;
    if (Error error = checkArena(function, place, formulas))
      return error;
    for (size_t i = 0; i < function.steps.size(); ++i)
      if (Error error = checkStep(i))
        return error;
    return Error::success();
  }

private:
  Error checkTensor(Place where, const PlanTensor &tensor) {
    if (Error error = formulas.checkTensor(where, tensor))
      return error;
    if (!tensors.insert({tensor.name, {tensor.bytes(), tensor.dtype}}).second)
      return where["name"].fail("'" + tensor.name + "' is defined twice");
    return Error::success();
  }

  Error checkBuffer(size_t i) {
    const PlanBuffer &buffer = function.buffers[i];
    Place where = place["buffers"][i];
    if (Error error = checkTensor(where, buffer.tensor))
      return error;
    buffers[buffer.tensor.name] = &buffer;
    // checkArena walks over buffers and steps in parallel.
    if (i > 0 && buffer.first < function.buffers[i - 1].first)
      return where["live"].fail("expected buffers in the order of their first step");
    auto stepCount = static_cast<int64_t>(function.steps.size());
    if (buffer.first >= stepCount || buffer.last > stepCount)
      return where["live"].fail("expected steps of the " + Twine(stepCount) + " there are, got [" +
                                Twine(buffer.first) + ", " + Twine(buffer.last) + "]");
    return Error::success();
  }

  Error checkResult(size_t i) {
    Place where = place["results"][i];
    auto buffer = buffers.find(function.results[i]);
    if (tensors.find(function.results[i]) == tensors.end())
      return where.fail("'" + function.results[i] + "' is not defined");
    if (buffer != buffers.end() && buffer->second->last != static_cast<int64_t>(function.steps.size()))
      return where.fail("expected a buffer that is live to the end, got '" + function.results[i] + "'");
    return Error::success();
  }

  Error checkStep(size_t i) {
    const PlanStep &step = function.steps[i];
    Place where = place["steps"][i];
    if (Error error = checkArguments(where, step, i, step.launch.arguments))
      return error;
    for (const auto &[j, variant] : llvm::enumerate(step.variants))
      if (Error error = checkArguments(where["variants"][j], step, i, variant.launch.arguments))
        return error;
    if (Error error = checkLaunches(plan, step, where, formulas, tensors))
      return error;
    if (Error error = formulas.checkRange(where["counters"], step.counters, 0, INT32_MAX))
      return error;
    if (Error error = addCost(where["bytes"], step.bytes, most.bytes))
      return error;
    return addCost(where["flops"], step.flops, most.flops);
  }

  /// Adds up costs, and checks that the sum does not overflow.
  Error addCost(Place where, const Expr &cost, int64_t &sum) const {
    if (Error error = costs.checkRange(where, cost, 0))
      return error;
    return __builtin_add_overflow(sum, costs.highest(cost), &sum)
               ? where.fail("the steps' sum is past 64 bits with this step's '" + cost.str() + "'")
               : Error::success();
  }

  Error checkArguments(Place where, const PlanStep &step, size_t at, ArrayRef<std::string> arguments) const {
    for (const auto &[i, argument] : llvm::enumerate(arguments))
      if (Error error = checkArgument(where["arguments"][i], step, at, argument))
        return error;
    return Error::success();
  }

  /// Whether it is an argument that plans for several ranks have.
  bool isOfRanks(const PlanStep &step, StringRef name) const {
    if (plan.ranks == 1)
      return false;
    if (std::optional<int64_t> rank = inboxOf(name))
      return step.inbox != 0 && *rank < plan.ranks;
    if (std::optional<int64_t> rank = mailboxesOf(name))
      return step.mailboxes != 0 && *rank < plan.ranks;
    if (std::optional<RankBuffer> own = rankBufferOf(name)) {
      auto isIt = [&](const PlanTensor &argument) { return argument.name == own->buffer; };
      return own->rank < plan.ranks &&
             (buffers.find(own->buffer) != buffers.end() || llvm::any_of(function.arguments, isIt));
    }
    return name == "@rank" || name == "@stop";
  }

  Error checkArgument(Place where, const PlanStep &step, size_t stepIndex, StringRef argument) const {
    StringRef name = argument;
    bool isKnown = name.consume_front("%") ? tensors.find(name) != tensors.end()
                                           : (name == "@workspace" && step.workspace) ||
                                                 (name == "@counters" && step.counters.asConstant() != 0) ||
                                                 (name == "@mailboxes" && step.mailboxes != 0) ||
                                                 isOfRanks(step, name) || formulas.hasDim(name);
    if (!isKnown)
      return where.fail("'" + argument + "' is not defined");
    if (std::optional<RankBuffer> own = rankBufferOf(argument))
      name = own->buffer;
    auto buffer = buffers.find(name);
    auto at = static_cast<int64_t>(stepIndex);
    if (argument != name && buffer != buffers.end() && (at < buffer->second->first || at > buffer->second->last))
      return where.fail("buffer '" + argument + "' is not live at step " + Twine(at));
    return Error::success();
  }

  const Plan &plan;
  const PlanFunction &function;
  Place place;
  const FormulaChecks &formulas, &costs;
  TensorMemories tensors; ///< everything with an address: weights, states, arguments, buffers
  std::map<std::string, const PlanBuffer *, std::less<>> buffers;
  StepCost most; ///< sum over the steps so far
};

} // namespace

Error checkFunction(const Plan &plan, const PlanFunction &function, Place place, const FormulaChecks &formulas,
                    const FormulaChecks &costs, const TensorMemories &globals) {
  return FunctionChecker(plan, function, place, formulas, costs, globals).check();
}

} // namespace kiln
