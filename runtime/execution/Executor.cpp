#include "runtime/execution/Executor.h"

#include "runtime/device/NvtxRange.h"
#include "support/Diagnostic.h"

namespace kiln {

//===----------------------------------------------------------------------===//
// Running
//===----------------------------------------------------------------------===//

Error Executor::uploadArguments(const PlanFunction &function, const Call &call) {
  for (const PlanTensor &argument : function.arguments) {
    auto given = llvm::find_if(call.arguments, [&](const auto &entry) { return entry.first == argument.name; });
    Expected<int64_t> bytes = argument.bytes().evaluate(call.dims);
    if (!bytes)
      return bytes.takeError();
    if (given == call.arguments.end() || static_cast<int64_t>(given->second.size()) * 4 != *bytes)
      return makeError("@" + function.name + ": argument %" + argument.name + ": expected " + Twine(*bytes / 4) +
                       " elements");
    DeviceMemory &memory = arguments.find(function.name + "/" + argument.name)->second;
    if (Error error = theDevice.upload(memory.address(), given->second.data(), *bytes))
      return error;
  }
  return Error::success();
}

Error Executor::enqueue(const Call &call) {
  if (Error error = theDevice.makeCurrent()) // the thread may have used another since
    return error;
  const PlanFunction *function = thePlan.findFunction(entryName(call.entry));
  if (!function || !isWanted(*function))
    return makeError("@" + entryName(call.entry) + " was not asked for when the plan was loaded");
  Expected<Placements> placed = place(*function, call);
  if (!placed)
    return placed.takeError();
  if (Error error = uploadArguments(*function, call))
    return error;
  lastPlacement = std::move(*placed);

  if (observer)
    return runObserved(*function, call);
  if (loading)
    return runWhileLoading(*function, call);
  // Calls on part of a batch, which start sequences beside others, have many shapes: those that come once need no
  // graph.
  bool isNew = call.firstRow != 0 && graphs.try_emplace({call.entry, call.dims}).second;
  return isNew || thePlan.stepByStep ? launchAll(*function, call, lastPlacement) : runGraph(*function, call);
}

/// What profilers show of a call: @prefill B=1 T=8.
static std::string nameOf(const Executor::Call &call) {
  std::string name = ("@" + entryName(call.entry)).str();
  for (const auto &[dim, value] : call.dims)
    name += " " + dim + "=" + std::to_string(value);
  return name;
}

/// Launches a step, in a range with its result in the IR and its kernel: %act.0 layernorm_matmul_bias_gelu__….
Error Executor::launchStep(const PlanFunction &function, const KernelLaunch &launch) {
  NvtxRange range([&] {
    const PlanBuffer *result = function.resultOf(static_cast<size_t>(launch.step - function.steps.data()));
    return (result ? "%" + result->tensor.name + " " : "") + launch.planned->kernel;
  });
  return theDevice.launch(launch);
}

/// Runs the graph of the call's shape. Addresses are looked up only if it is new or works on other rows: a step of
/// decode may take the device no longer than that.
Error Executor::runGraph(const PlanFunction &function, const Call &call) {
  assert(call.bindings.empty() && "graphs of a shape use the executor's memory");
  KeptGraph &kept = graphs[{call.entry, call.dims}];
  const bool isOfOtherRows = kept.graph && kept.firstRow != call.firstRow;
  if (!kept.graph || (isOfOtherRows && !canMove(function, call)))
    if (Error error = makeGraph(kept, function, call))
      return error;
  if (kept.firstRow != call.firstRow)
    if (Error error = moveGraph(kept, function, call)) {
      kept.graph.reset(); // some of its launches may have been changed
      return error;
    }
  return theDevice.run(*kept.graph);
}

Error Executor::makeGraph(KeptGraph &kept, const PlanFunction &function, const Call &call) {
  std::vector<KernelLaunch> launches;
  GraphBranch beside;
  if (Error error = resolveParts(launches, beside, function, call))
    return error;
  auto made = theDevice.makeGraph(std::move(launches), std::move(beside));
  if (!made)
    return made.takeError();
  kept.graph = std::move(*made);
  kept.graph->name = nameOf(call);
  kept.firstRow = call.firstRow;
  return Error::success();
}

bool Executor::usesStates(const PlanLaunch &planned) const {
  return llvm::any_of(planned.arguments,
                      [&](StringRef name) { return name.consume_front("%") && states.find(name) != states.end(); });
}

/// Whether a graph of the call can be made to work on other rows: what a library launches cannot be changed.
bool Executor::canMove(const PlanFunction &function, const Call &call) const {
  return llvm::none_of(function.steps,
                       [&](const PlanStep &step) { return step.matmul && usesStates(step.launchFor(call.dims)); });
}

/// Makes a graph work on the rows of the call.
Error Executor::moveGraph(KeptGraph &kept, const PlanFunction &function, const Call &call) {
  auto parts = partsOf(function, call);
  if (!parts)
    return parts.takeError();
  size_t before = 0;
  for (const Call &part : *parts) {
    if (Error error = moveLaunches(*kept.graph, before, function, part))
      return error;
    before += function.steps.size();
  }
  kept.firstRow = call.firstRow;
  return Error::success();
}

/// The same of its launches from number `before` on, those of a call.
Error Executor::moveLaunches(DeviceGraph &graph, size_t before, const PlanFunction &function, const Call &call) {
  Expected<Placements> placed = place(function, call);
  if (!placed)
    return placed.takeError();
  for (const auto &[index, step] : llvm::enumerate(function.steps)) {
    if (!usesStates(step.launchFor(call.dims)))
      continue;
    Expected<KernelLaunch> launch = resolveStep(function, step, call, *placed);
    if (!launch)
      return launch.takeError();
    if (Error error = theDevice.change(graph, before + index, *launch))
      return error;
  }
  return Error::success();
}

Error Executor::repeat(const Call &call) {
  if (thePlan.stepByStep)
    return launch(call);
  if (Error error = finishLoading())
    return error;
  return runGraph(thePlan.function(call.entry), call);
}

Error Executor::launch(const Call &call) {
  if (Error error = finishLoading())
    return error;
  const PlanFunction &function = thePlan.function(call.entry);
  Expected<Placements> placed = place(function, call);
  return placed ? launchAll(function, call, *placed) : placed.takeError();
}

Error Executor::launchAll(const PlanFunction &function, const Call &call, const Placements &placed) {
  auto launches = isHalved(function, call.dims) ? resolveInSequence(function, call) : resolve(function, call, placed);
  if (!launches)
    return launches.takeError();
  NvtxRange range([&] { return nameOf(call); });
  for (const KernelLaunch &one : *launches)
    if (Error error = launchStep(function, one))
      return error;
  return Error::success();
}

Expected<std::unique_ptr<DeviceGraph>> Executor::record(ArrayRef<Call> calls) {
  if (Error error = finishLoading())
    return error;
  std::vector<KernelLaunch> all;
  std::string names;
  for (const Call &call : calls) {
    names += (names.empty() ? "" : ", ") + nameOf(call);
    auto launches = resolve(thePlan.function(call.entry), call);
    if (!launches)
      return launches.takeError();
    llvm::append_range(all, *launches);
  }
  auto graph = theDevice.makeGraph(std::move(all));
  if (graph)
    (*graph)->name = std::move(names);
  return graph;
}

Expected<char *> Executor::addressOf(const Call &call, StringRef tensor) const {
  auto placed = place(thePlan.function(call.entry), call);
  if (!placed)
    return placed.takeError();
  auto it = placed->find(tensor);
  if (it == placed->end())
    return makeError("@" + entryName(call.entry) + " has no tensor '" + tensor + "'");
  return it->second.address;
}

Error Executor::copyRow(int64_t from, int64_t to) {
  DimBinding one = largestDims();
  one[thePlan.entries.batch] = 1;
  for (const PlanTensor &state : thePlan.states) {
    Expected<int64_t> bytes = state.bytes().evaluate(one);
    if (!bytes)
      return bytes.takeError();
    char *base = states.find(state.name)->second.address();
    if (Error error = theDevice.copy(base + to * *bytes, base + from * *bytes, *bytes))
      return error;
  }
  return Error::success();
}

Error Executor::runObserved(const PlanFunction &function, const Call &call) {
  if (Error error = finishLoading())
    return error;
  auto launches = resolve(function, call);
  if (!launches)
    return launches.takeError();
  if (Error error = observer->onCall(call))
    return error;
  NvtxRange range([&] { return nameOf(call); });
  for (size_t i = 0; i < launches->size(); ++i) {
    KernelLaunch &launch = (*launches)[i];
    launch.startsAfterAll = true; // what measure enqueues is between it and the launch before
    Expected<double> seconds = theDevice.measure([&] { return launchStep(function, launch); });
    if (!seconds)
      return seconds.takeError();
    if (Error error = observer->onStep(function, i, *seconds))
      return error;
  }
  return Error::success();
}

//===----------------------------------------------------------------------===//
// Results
//===----------------------------------------------------------------------===//

Error Executor::download(StringRef name, int64_t element, MutableArrayRef<float> elements) {
  auto it = lastPlacement.find(name);
  if (it == lastPlacement.end())
    return makeError("the last call has no tensor '" + name + "'");
  const Placement &place = it->second;
  int64_t count = static_cast<int64_t>(elements.size()), size = dtypeSize(place.dtype);
  if (element < 0 || element > place.elements - count)
    return makeError("tensor '" + name + "': expected " + Twine(count) + " elements from element " + Twine(element) +
                     " on, got a tensor of " + Twine(place.elements));
  if (place.dtype == DType::F32)
    return theDevice.download(elements.data(), place.address + element * size, count * size);
  std::vector<char> bytes(count * size);
  if (Error error = theDevice.download(bytes.data(), place.address + element * size, count * size))
    return error;
  for (int64_t i = 0; i < count; ++i)
    elements[i] = loadElement(bytes.data(), place.dtype, i);
  return Error::success();
}

std::optional<int64_t> Executor::elementCount(StringRef name) const {
  auto it = lastPlacement.find(name);
  return it == lastPlacement.end() ? std::nullopt : std::optional(it->second.elements);
}

} // namespace kiln
