// Calls of several ranks as two halves of the batch that run side by side, so that the sums over ranks of one half
// cross the link while the other half multiplies.
//
// Each half is a call of the same function with some of the rows, in a lane of its own: another part of the arena,
// other counters, and other words for exchanges with the other ranks. Their results lie in one place behind both, as if
// there had been one call.
//
// Whether a call has halves depends on its dims alone, so that all ranks agree: one that still waits for weights
// launches them one by one, in an order that the graphs of the others allow.
#include "runtime/execution/Executor.h"

#include "support/Diagnostic.h"

namespace kiln {

constexpr int64_t arenaAlignment = 256; // as Device::allocate

static int64_t aligned(int64_t bytes) {
  return static_cast<int64_t>(llvm::alignTo(static_cast<uint64_t>(bytes), arenaAlignment));
}

/// The most threads of an exchange in a half: no GPU that runs plans for several ranks is filled by twice as many.
constexpr int64_t mostExchangeThreads = 1 << 15;

/// Whether the launch may run beside another half's: it does not wait until all of its blocks run, and blocks that wait
/// for other ranks leave room for those of the other half. Large blocks do so if there are few of them in a half; those
/// of products that wait for other ranks take all of the GPU.
bool Executor::isGoodInHalf(const PlanStep &step, const PlanLaunch &launch) const {
  if (launch.cooperative)
    return false;
  if (step.inbox == 0)
    return true;
  if (launch.dynamicShared != 0 && launch.halfBlocks == 0)
    return false;
  Expected<int64_t> grid = (launch.grid[0] * launch.grid[1] * launch.grid[2]).evaluate(largestDims());
  if (!grid) {
    llvm::consumeError(grid.takeError());
    return false;
  }
  const int64_t blocks = launch.halfBlocks == 0 ? *grid : std::min(*grid, launch.halfBlocks);
  return blocks <= mostExchangeThreads / launch.threads;
}

/// Whether two calls of the function may run at the same time: besides that, other ranks write to no memory of a single
/// step, which has no lanes, and no step needs a library, whose calls share some.
bool Executor::canHalve(const PlanFunction &function) const {
  auto isGood = [&](const PlanStep &step) {
    return !step.matmul && !step.sharesMailboxes() &&
           llvm::all_of(step.launches(), [&](const PlanLaunch *launch) { return isGoodInHalf(step, *launch); });
  };
  std::optional<Entry> entry = findEntry(function.name);
  return thePlan.halvedRows != 0 && !thePlan.stepByStep && (entry == Entry::Prefill || entry == Entry::Score) &&
         isWanted(function) && llvm::all_of(function.steps, isGood);
}

/// Whether a call with these dims runs as two halves.
bool Executor::isHalved(const PlanFunction &function, const DimBinding &dims) const {
  auto batch = dims.find(thePlan.entries.batch), tokens = dims.find(thePlan.entries.tokens);
  return batch != dims.end() && tokens != dims.end() && batch->second > 1 &&
         batch->second * tokens->second >= thePlan.halvedRows && canHalve(function);
}

/// The calls that run side by side for a call: its halves, the larger one first, or the call itself.
Expected<SmallVector<Executor::Call, 2>> Executor::partsOf(const PlanFunction &function, const Call &call) const {
  if (!isHalved(function, call.dims))
    return SmallVector<Call, 2>{call};
  const std::string &batch = thePlan.entries.batch;
  const int64_t rows = call.dims.find(batch)->second, ofFirst = (rows + 1) / 2;
  Call first = call, second = call;
  first.dims[batch] = ofFirst;
  first.lane = {.isHalf = true};
  Expected<int64_t> bytes = function.arena.evaluate(first.dims);
  if (!bytes)
    return bytes.takeError();
  second.dims[batch] = rows - ofFirst;
  second.firstRow += ofFirst;
  second.lane = {.isHalf = true, .number = 1, .rowsBefore = ofFirst, .arena = aligned(*bytes)};
  return SmallVector<Call, 2>{std::move(first), std::move(second)};
}

int64_t Executor::partCount(const Call &call) const {
  return isHalved(thePlan.function(call.entry), call.dims) ? 2 : 1;
}

/// The order of the launches of two halves, which are alike. The stretches between exchanges take turns: the first
/// product of the one half's waits until the last product of the other half's has begun. Otherwise both would multiply
/// at the same time, each half as fast, and then both exchange with nothing to hide it. Were it enough that the
/// launches in front of the last product have ended, both products would start at the same time; if the first one got
/// the multiprocessors, the last one would come a whole product later, and the exchange behind it, too.
std::vector<std::pair<size_t, size_t>> Executor::orderOfHalves(ArrayRef<KernelLaunch> launches) {
  std::vector<std::pair<size_t, size_t>> order;
  auto isExchange = [](const KernelLaunch &launch) { return launch.step->inbox != 0; };
  auto isProduct = [&](const KernelLaunch &launch) { return launch.planned->halfBlocks != 0 && !isExchange(launch); };
  std::optional<size_t> ofSecond; // the last product of the second half's latest stretch
  for (size_t begin = 0; begin < launches.size();) {
    const auto stretch = launches.drop_front(begin).take_until(isExchange);
    if (llvm::any_of(stretch, isProduct)) {
      const size_t first = begin + (llvm::find_if(stretch, isProduct) - stretch.begin());
      const size_t last = begin + stretch.size() - 1 -
                          (llvm::find_if(llvm::reverse(stretch), isProduct) - llvm::reverse(stretch).begin());
      if (ofSecond)
        order.emplace_back(*ofSecond, first);
      order.emplace_back(last, launches.size() + first);
      ofSecond = launches.size() + last;
    }
    begin += stretch.size() + 1;
  }
  return order;
}

/// The launches of a call; with halves, those of the second are beside those of the first.
Error Executor::resolveParts(std::vector<KernelLaunch> &launches, GraphBranch &beside, const PlanFunction &function,
                             const Call &call) const {
  auto parts = partsOf(function, call);
  if (!parts)
    return parts.takeError();
  for (auto [part, its] : llvm::zip(*parts, std::array{&launches, &beside.launches}))
    if (Error error = resolve(function, part).moveInto(*its))
      return error;
  if (parts->size() == 2)
    beside.order = orderOfHalves(launches);
  return Error::success();
}

/// The same in an order in which they may run one after the other.
Expected<std::vector<KernelLaunch>> Executor::resolveInSequence(const PlanFunction &function, const Call &call) const {
  std::vector<KernelLaunch> launches;
  GraphBranch beside;
  if (Error error = resolveParts(launches, beside, function, call))
    return error;
  if (beside.launches.empty())
    return launches;
  std::vector<KernelLaunch> sequence;
  for (size_t number : sequenceOf(launches.size(), beside))
    sequence.push_back(number < launches.size() ? launches[number] : beside.launches[number - launches.size()]);
  return sequence;
}

/// How many calls run side by side.
int64_t Executor::lanes() const {
  return llvm::any_of(thePlan.functions, [&](const auto &function) { return isHalved(function, largestDims()); }) ? 2
                                                                                                                  : 1;
}

/// The arena of a function whose largest call runs as two halves.
Expected<Executor::HalvedArena> Executor::halvedArena(const PlanFunction &function) const {
  const DimBinding dims = largestDims();
  auto parts = partsOf(function, {{}, dims, {}});
  if (!parts)
    return parts.takeError();
  Expected<int64_t> whole = function.arena.evaluate(dims), ofLast = function.arena.evaluate(parts->back().dims);
  if (!whole)
    return llvm::joinErrors(whole.takeError(), ofLast.takeError());
  if (!ofLast)
    return ofLast.takeError();
  // A call that is observed runs whole, but has its results in the same place.
  HalvedArena arena = {aligned(std::max(*whole, parts->back().lane.arena + *ofLast)), {}};
  for (const PlanBuffer &buffer : function.buffers) {
    if (!llvm::is_contained(function.results, buffer.tensor.name))
      continue;
    Expected<int64_t> bytes = buffer.tensor.bytes().evaluate(dims);
    if (!bytes)
      return bytes.takeError();
    arena.results[buffer.tensor.name] = arena.bytes;
    arena.bytes += aligned(*bytes);
  }
  return arena;
}

} // namespace kiln
