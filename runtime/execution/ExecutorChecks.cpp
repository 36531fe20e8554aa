// An executor's checks of a plan, a call and the device, before it touches memory.
#include "runtime/execution/Executor.h"

#include "support/Diagnostic.h"

namespace kiln {

Error Executor::checkOptions(size_t devices) const {
  if (thePlan.ranks != static_cast<int64_t>(devices))
    return makeError("the plan is for " + Twine(thePlan.ranks) + (thePlan.ranks == 1 ? " GPU" : " GPUs, its ranks") +
                     "; expected as many devices, got " + Twine(devices));
  if (thePlan.entries.empty())
    return makeError("the plan is of no language model: it has no entries");
  for (Entry entry : capacity.entries)
    if (!thePlan.entries.has(entry))
      return makeError("the plan has no entry '" + entryName(entry) + "'");
  for (const auto &[name, wanted] : largestDims()) {
    const PlanDim &dim = *thePlan.findDim(name);
    if (wanted < dim.min || wanted > dim.max)
      return makeError("the plan runs " + name + " from " + Twine(dim.min) + " to " + Twine(dim.max) + ", got " +
                       Twine(wanted) + (name == thePlan.entries.batch ? "; compile with a larger --max-batch" : ""));
  }
  return Error::success();
}

/// Dims within these bounds are safe: the plan's reader has checked all formulas within the plan's bounds, and memory
/// is allocated for the largest dims of the options.
Error Executor::checkDims(const Call &call) const {
  const DimBinding largest = largestDims();
  for (const PlanDim &dim : thePlan.dims) {
    auto given = call.dims.find(dim.name);
    int64_t most = largest.find(dim.name)->second;
    if (given == call.dims.end())
      return makeError("@" + entryName(call.entry) + ": expected " + dim.name + " from " + Twine(dim.min) + " to " +
                       Twine(most) + ", got none");
    if (given->second < dim.min || given->second > most)
      return makeError("@" + entryName(call.entry) + ": expected " + dim.name + " from " + Twine(dim.min) + " to " +
                       Twine(most) + ", got " + Twine(given->second));
  }
  for (const auto &[name, value] : call.dims)
    if (!largest.count(name) && name != pastTokens)
      return makeError("@" + entryName(call.entry) + ": the plan has no dim " + name);
  auto rows = call.dims.find(thePlan.entries.batch);
  if (const PlanFunction &function = thePlan.function(call.entry);
      rows != call.dims.end() && !function.takes(rows->second))
    return makeError("@" + entryName(call.entry) + ": expected at most " + Twine(function.sequences) +
                     " sequences, got " + Twine(rows->second));
  if (call.firstRow < 0 || (rows != call.dims.end() && call.firstRow > capacity.batch - rows->second))
    return makeError("@" + entryName(call.entry) + ": expected rows of the " + Twine(capacity.batch) +
                     " there are, got " + Twine(rows == call.dims.end() ? 1 : rows->second) + " from row " +
                     Twine(call.firstRow));
  return Error::success();
}

/// The bytes that a plan needs, by purpose.
struct Executor::MemoryNeeds {
  int64_t weights = 0, states = 0, others = 0;

  Expected<int64_t> sum() const {
    int64_t all = 0;
    for (int64_t part : {weights, states, others})
      if (Error error = add(all, part))
        return error;
    return all;
  }

  static Error add(int64_t &sum, Expected<int64_t> bytes) {
    if (!bytes)
      return bytes.takeError();
    return __builtin_add_overflow(sum, *bytes, &sum) ? makeError("the plan needs more memory than 64 bits can count")
                                                     : Error::success();
  }
};

Expected<Executor::MemoryNeeds> Executor::memoryNeeds() const {
  DimBinding dims = largestDims();
  MemoryNeeds needs;
  for (const PlanWeight &weight : thePlan.weights)
    if (Error error = MemoryNeeds::add(needs.weights, packedSize(weight.recipe)))
      return error;
  for (const PlanTensor &state : thePlan.states)
    if (Error error = MemoryNeeds::add(needs.states, state.bytes().evaluate(dims)))
      return error;
  for (const PlanFunction &function : thePlan.functions)
    if (isWanted(function))
      for (const PlanTensor &argument : function.arguments)
        if (Error error = MemoryNeeds::add(needs.others, argument.bytes().evaluate(dims)))
          return error;
  for (const PlanFunction &function : thePlan.functions)
    for (const PlanStep &step : function.steps)
      if (Error error =
              MemoryNeeds::add(needs.others, mailboxBytesOfLane(step) * (step.sharesMailboxes() ? 1 : lanes())))
        return error;
  if (Error error = MemoryNeeds::add(needs.others, arenaBytes()))
    return error;
  for (int64_t lane = 0; lane < lanes(); ++lane) {
    if (Error error = MemoryNeeds::add(needs.others, counterBytes()))
      return error;
    if (Error error = MemoryNeeds::add(needs.others, inboxBytes()))
      return error;
  }
  return needs;
}

/// Functions take turns, so they share one arena.
Expected<int64_t> Executor::arenaBytes() const {
  const DimBinding dims = largestDims();
  int64_t most = 0;
  for (const PlanFunction &function : thePlan.functions) {
    if (isHalved(function, dims)) {
      Expected<HalvedArena> halved = halvedArena(function);
      if (!halved)
        return halved.takeError();
      most = std::max(most, halved->bytes);
      continue;
    }
    Expected<int64_t> bytes = function.arena.evaluate(dims);
    if (!bytes)
      return bytes;
    most = std::max(most, *bytes);
  }
  return most;
}

/// Of a lane. Steps share counters, since each leaves its counters at zero.
Expected<int64_t> Executor::counterBytes() const {
  const DimBinding dims = largestDims();
  int64_t most = 0;
  for (const PlanFunction &function : thePlan.functions)
    for (const PlanStep &step : function.steps) {
      Expected<int64_t> bytes = (Expr(4) * step.counters).evaluate(dims);
      if (!bytes)
        return bytes;
      most = std::max(most, *bytes);
    }
  return most;
}

Error Executor::checkMemory() const {
  Expected<MemoryNeeds> needs = memoryNeeds();
  if (!needs)
    return needs.takeError();
  Expected<int64_t> all = needs->sum();
  if (!all)
    return all.takeError();
  Expected<int64_t> available = theDevice.freeMemory();
  if (!available)
    return available.takeError();
  if (*all <= *available)
    return Error::success();
  auto megabytes = [](int64_t bytes) { return formatv("{0:F1} MB", static_cast<double>(bytes) / 1e6).str(); };
  return makeError("out of memory on " + theDevice.name() + ": needed are " + megabytes(*all) + " (weights " +
                   megabytes(needs->weights) + ", caches of " + Twine(capacity.batch) + " sequences " +
                   megabytes(needs->states) + ", intermediate values " + megabytes(needs->others) + "), free are " +
                   megabytes(*available) +
                   "; lower the number of sequences (--batch, --max-batch), or choose a --dtype of 16 bits");
}

} // namespace kiln
