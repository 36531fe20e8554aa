#include "runtime/Executor.h"

#include "runtime/PackWeight.h"
#include "support/Diagnostic.h"

namespace kiln {

Expected<std::unique_ptr<Executor>> Executor::create(Device &device, Plan plan, const KernelFiles &files,
                                                     const WeightSource &weights, const Options &options) {
  std::unique_ptr<Executor> executor(new Executor(device, std::move(plan), options));
  if (Error error = executor->checkOptions())
    return error;
  executor->restrictPlan();
  if (Error error = executor->checkMemory())
    return error;
  // Packing goes on while kernels are loaded.
  if (Error error = executor->loadWeights(weights))
    return error;
  if (Error error = executor->loadKernels(files))
    return error;
  if (Error error = executor->allocateMemory())
    return error;
  if (executor->thePlan.weightsFirst)
    if (Error error = executor->finishLoading())
      return error;
  return executor;
}

//===----------------------------------------------------------------------===//
// Loading
//===----------------------------------------------------------------------===//

Error Executor::checkOptions() const {
  for (const PlanDim &dim : thePlan.dims) {
    int64_t wanted = dim.name == "B" ? capacity.batch : dim.name == "T" ? capacity.tokens : dim.max;
    if (wanted < dim.min || wanted > dim.max)
      return makeError("the plan runs " + dim.name + " from " + Twine(dim.min) + " to " + Twine(dim.max) + ", got " +
                       Twine(wanted) + (dim.name == "B" ? "; compile with a larger --max-batch" : ""));
  }
  for (const std::string &name : capacity.functions)
    if (!thePlan.findFunction(name))
      return makeError("the plan has no function @" + name);
  return Error::success();
}

void Executor::restrictPlan() {
  // @sample is called by DeviceSampler, on memory of its own.
  SmallVector<StringRef, 4> functions = {"sample"};
  llvm::append_range(functions, capacity.functions);
  thePlan.restrictTo(functions, largestDims());
}

Error Executor::loadKernels(const KernelFiles &files) {
  auto loaded = theDevice.loadKernels(thePlan, files);
  if (!loaded)
    return loaded.takeError();
  for (auto [kernel, device] : llvm::zip(thePlan.kernels, *loaded))
    kernels[kernel.name] = std::move(device);
  return Error::success();
}

bool Executor::isWanted(const PlanFunction &function) const {
  return llvm::is_contained(capacity.functions, function.name);
}

/// All weights, those first that the first function uses first.
std::vector<const PlanWeight *> Executor::weightsByUse() const {
  std::vector<const PlanWeight *> ordered;
  std::set<StringRef> seen;
  auto add = [&](const PlanWeight &weight) {
    if (seen.insert(weight.name).second)
      ordered.push_back(&weight);
  };
  std::map<StringRef, const PlanWeight *> byName;
  for (const PlanWeight &weight : thePlan.weights)
    byName[weight.name] = &weight;
  for (const std::string &name : capacity.functions)
    for (const PlanStep &step : thePlan.findFunction(name)->steps)
      for (StringRef argument : step.launch.arguments)
        if (auto it = byName.find(argument.ltrim('%')); argument.starts_with("%") && it != byName.end())
          add(*it->second);
  for (const PlanWeight &weight : thePlan.weights)
    add(weight);
  return ordered;
}

Error Executor::loadWeights(const WeightSource &source) {
  std::vector<WeightUpload::Item> items;
  for (const PlanWeight *weight : weightsByUse()) {
    Expected<int64_t> bytes = packedSize(weight->recipe);
    if (!bytes)
      return bytes.takeError();
    auto memory = DeviceMemory::allocate(theDevice, std::max<int64_t>(*bytes, 1), "weight " + weight->name);
    if (!memory)
      return memory.takeError();
    loadingOrder[weight->name] = items.size();
    items.push_back({weight, memory->address()});
    weights[weight->name] = std::move(*memory);
  }
  auto started = WeightUpload::start(theDevice, source, std::move(items));
  if (!started)
    return started.takeError();
  loading = std::move(*started);
  return Error::success();
}

/// Refuses at once what would fail halfway, with all that the user can choose by.
Error Executor::checkMemory() const {
  DimBinding dims = largestDims();
  int64_t weightBytes = 0, stateBytes = 0, otherBytes = 0;
  auto add = [&](int64_t &sum, Expected<int64_t> bytes) -> Error {
    if (bytes)
      sum += *bytes;
    return bytes.takeError();
  };
  for (const PlanWeight &weight : thePlan.weights)
    if (Error error = add(weightBytes, packedSize(weight.recipe)))
      return error;
  for (const PlanTensor &state : thePlan.states)
    if (Error error = add(stateBytes, state.bytes().evaluate(dims)))
      return error;
  Expr arenaBytes(0);
  for (const PlanFunction &function : thePlan.functions)
    if (isWanted(function))
      arenaBytes = max(arenaBytes, function.arena);
  if (Error error = add(otherBytes, arenaBytes.evaluate(dims)))
    return error;
  Expected<int64_t> available = theDevice.freeMemory();
  if (!available)
    return available.takeError();
  if (weightBytes + stateBytes + otherBytes <= *available)
    return Error::success();
  auto megabytes = [](int64_t bytes) { return formatv("{0:F1} MB", static_cast<double>(bytes) / 1e6).str(); };
  return makeError("out of memory on " + theDevice.name() + ": needed are " +
                   megabytes(weightBytes + stateBytes + otherBytes) + " (weights " + megabytes(weightBytes) +
                   ", caches of " + Twine(capacity.batch) + " sequences " + megabytes(stateBytes) +
                   ", intermediate values " + megabytes(otherBytes) + "), free are " + megabytes(*available) +
                   "; lower the number of sequences (--max-batch), or choose a --dtype of 16 bits");
}

DimBinding Executor::largestDims() const {
  DimBinding dims;
  for (const PlanDim &dim : thePlan.dims)
    dims[dim.name] = dim.name == "B" ? capacity.batch : dim.name == "T" ? capacity.tokens : dim.max;
  return dims;
}

Error Executor::allocateMemory() {
  DimBinding dims = largestDims();
  auto allocate = [&](DeviceMemory &memory, const Expr &size, StringRef what) -> Error {
    Expected<int64_t> bytes = size.evaluate(dims);
    if (!bytes)
      return bytes.takeError();
    auto allocated = DeviceMemory::allocate(theDevice, std::max<int64_t>(*bytes, 1), what);
    if (!allocated)
      return allocated.takeError();
    memory = std::move(*allocated);
    return Error::success();
  };
  for (const PlanTensor &state : thePlan.states) {
    DeviceMemory &memory = states[state.name];
    if (Error error = allocate(memory, state.bytes(), "state " + state.name))
      return error;
    // Rows that nothing has written yet are hidden by a mask, or multiplied by a probability of zero.
    if (Error error = theDevice.clear(memory.address(), memory.bytes()))
      return error;
  }
  Expr arenaBytes(0), counterCount(0);
  for (const PlanFunction &function : thePlan.functions) {
    for (const PlanStep &step : function.steps)
      counterCount = max(counterCount, step.counters);
    if (!isWanted(function))
      continue;
    arenaBytes = max(arenaBytes, function.arena);
    for (const PlanTensor &argument : function.arguments)
      if (Error error =
              allocate(arguments[function.name + "/" + argument.name], argument.bytes(), "argument " + argument.name))
        return error;
  }
  if (Error error = allocate(arena, arenaBytes, "arena"))
    return error;
  if (Error error = allocate(counters, Expr(4) * counterCount, "counters"))
    return error;
  // Kernels leave their counters at zero, as they must find them.
  return theDevice.clear(counters.address(), counters.bytes());
}

//===----------------------------------------------------------------------===//
// Running
//===----------------------------------------------------------------------===//

/// The caller's memory for an argument; null if it has none of its own.
static const Executor::Binding *findBinding(const Executor::Call &call, StringRef argument) {
  auto found = llvm::find_if(call.bindings, [&](const auto &binding) { return binding.argument == argument; });
  return found == call.bindings.end() ? nullptr : &*found;
}

/// Where everything that the function's steps name lies in this call.
Expected<std::map<std::string, Executor::Placement, std::less<>>> Executor::place(const PlanFunction &function,
                                                                                  const Call &call) const {
  std::map<std::string, Placement, std::less<>> placed;
  auto add = [&](const PlanTensor &tensor, char *address) -> Error {
    Expected<int64_t> bytes = tensor.bytes().evaluate(call.dims);
    if (!bytes)
      return bytes.takeError();
    placed[tensor.name] = {address, tensor.dtype, *bytes / dtypeSize(tensor.dtype)};
    return Error::success();
  };
  for (const PlanWeight &weight : thePlan.weights) {
    const DeviceMemory &memory = weights.find(weight.name)->second;
    placed[weight.name] = {memory.address(), weight.recipe.dtype, memory.bytes() / dtypeSize(weight.recipe.dtype)};
  }
  for (const PlanTensor &state : thePlan.states) {
    // A sequence's share of a state is what the state has for each B.
    DimBinding one = call.dims;
    one["B"] = 1;
    Expected<int64_t> rowBytes = state.bytes().evaluate(one);
    if (!rowBytes)
      return rowBytes.takeError();
    if (Error error = add(state, states.find(state.name)->second.address() + call.firstRow * *rowBytes))
      return error;
  }
  for (const PlanTensor &argument : function.arguments) {
    const Binding *bound = findBinding(call, argument.name);
    auto own = arguments.find(function.name + "/" + argument.name);
    if (!bound && own == arguments.end())
      return makeError("@" + function.name + ": argument %" + argument.name + ": expected memory, got none");
    if (Error error = add(argument, bound ? bound->address : own->second.address()))
      return error;
  }
  for (const PlanBuffer &buffer : function.buffers) {
    Expected<int64_t> offset = buffer.offset.evaluate(call.dims);
    if (!offset)
      return offset.takeError();
    if (Error error = add(buffer.tensor, arena.address() + *offset))
      return error;
  }
  return placed;
}

/// The word of an argument of a step, and if that is an address the tensor behind it.
Error Executor::addArgument(KernelLaunch &launch, StringRef name, const PlanFunction &function, const Call &call,
                            const std::map<std::string, Placement, std::less<>> &placed) const {
  const PlanStep &step = *launch.step;
  LaunchTensor tensor;
  if (name == "@workspace") {
    Expected<int64_t> offset = step.workspace->offset.evaluate(call.dims),
                      bytes = step.workspace->bytes.evaluate(call.dims);
    if (!offset)
      return llvm::joinErrors(offset.takeError(), bytes.takeError());
    if (!bytes)
      return bytes.takeError();
    tensor = {"@workspace", arena.address() + *offset, *bytes, /*isWritten=*/true, /*isFresh=*/true};
  } else if (name == "@counters") {
    Expected<int64_t> count = step.counters.evaluate(call.dims);
    if (!count)
      return count.takeError();
    tensor = {"@counters", counters.address(), *count * 4, /*isWritten=*/true, /*isFresh=*/false};
  } else if (name.consume_front("%")) {
    const Placement &place = placed.find(name)->second;
    auto isNamed = [&](const PlanBuffer &buffer) { return buffer.tensor.name == name; };
    auto buffer = llvm::find_if(function.buffers, isNamed);
    bool isResult = buffer != function.buffers.end() && &function.steps[buffer->first] == &step;
    const Binding *bound = findBinding(call, name);
    bool isWritten = isResult || states.count(name) || (bound && bound->isWritten);
    tensor = {("%" + name).str(), place.address, place.elements * dtypeSize(place.dtype), isWritten, isResult};
  } else {
    launch.arguments.push_back(static_cast<uint64_t>(call.dims.find(name)->second));
    return Error::success();
  }
  launch.arguments.push_back(reinterpret_cast<uint64_t>(tensor.address));
  launch.tensors.push_back(std::move(tensor));
  return Error::success();
}

Error Executor::fillKernel(KernelLaunch &launch, const Call &call) const {
  const PlanLaunch &planned = *launch.planned;
  launch.kernel = kernels.find(planned.kernel)->second.get();
  launch.threads = static_cast<uint32_t>(planned.threads);
  launch.dynamicShared = static_cast<uint32_t>(planned.dynamicShared);
  for (auto [extent, expr] : llvm::zip(launch.grid, planned.grid)) {
    Expected<int64_t> value = expr.evaluate(call.dims);
    if (!value)
      return value.takeError();
    if (*value < 1 || *value > INT32_MAX)
      return makeError("step '" + planned.kernel + "': a grid of " + Twine(*value) + " blocks cannot be launched");
    extent = static_cast<uint32_t>(*value);
  }
  return Error::success();
}

Error Executor::fillMatmul(KernelLaunch &launch, const Call &call) {
  const PlanMatmul &planned = *launch.step->matmul;
  LaunchMatmul matmul{.untransposed = planned.untransposed,
                      .dtype = planned.dtype,
                      .out = planned.out,
                      .bias = planned.bias,
                      .gelu = planned.gelu,
                      .residual = planned.residual};
  for (auto [extent, expr] : {std::pair(&matmul.rows, &planned.rows), std::pair(&matmul.cols, &planned.cols),
                              std::pair(&matmul.depth, &planned.depth), std::pair(&matmul.batch, &planned.batch)}) {
    Expected<int64_t> value = expr->evaluate(call.dims);
    if (!value)
      return value.takeError();
    *extent = *value;
  }
  launch.matmul = matmul;
  return Error::success();
}

Expected<std::vector<KernelLaunch>> Executor::resolve(const PlanFunction &function, const Call &call) const {
  auto placed = place(function, call);
  if (!placed)
    return placed.takeError();
  std::vector<KernelLaunch> launches;
  for (const PlanStep &step : function.steps) {
    const PlanLaunch &planned = step.launchFor(call.dims);
    KernelLaunch &launch = launches.emplace_back();
    launch.startsAfterAll = launches.size() == 1 || thePlan.serial;
    launch.step = &step;
    launch.planned = &planned;
    if (Error error = step.matmul ? fillMatmul(launch, call) : fillKernel(launch, call))
      return error;
    for (StringRef name : planned.arguments)
      if (Error error = addArgument(launch, name, function, call, *placed))
        return error;
  }
  return launches;
}

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
  const PlanFunction *function = thePlan.findFunction(call.function);
  if (!function)
    return makeError("the plan has no function @" + call.function);
  assert(isWanted(*function) && "the function was not named when the executor was made");
  for (const auto &[name, value] : call.dims) {
    int64_t most = largestDims().find(name)->second;
    if (value < 1 || value > most)
      return makeError("@" + call.function + ": expected " + name + " from 1 to " + Twine(most) + ", got " +
                       Twine(value));
  }
  if (Error error = uploadArguments(*function, call))
    return error;
  auto placed = place(*function, call);
  if (!placed)
    return placed.takeError();
  lastPlacement = std::move(*placed);

  if (observer)
    return runObserved(*function, call);
  if (loading)
    return runWhileLoading(*function, call);
  // Calls on part of a batch restart a sequence: too many, and too rare, for a graph each.
  return call.firstRow == 0 ? repeat(call) : launch(call);
}

/// Launches each step as soon as its weights are on their way. Then everything is.
Error Executor::runWhileLoading(const PlanFunction &function, const Call &call) {
  auto launches = resolve(function, call);
  if (!launches)
    return launches.takeError();
  std::optional<size_t> awaited;
  for (const KernelLaunch &launch : *launches) {
    for (StringRef argument : launch.planned->arguments) {
      auto item = argument.consume_front("%") ? loadingOrder.find(argument) : loadingOrder.end();
      if (item == loadingOrder.end() || (awaited && item->second <= *awaited))
        continue;
      awaited = item->second;
      if (Error error = loading->await(*awaited))
        return error;
    }
    if (Error error = theDevice.launch(launch))
      return error;
  }
  return finishLoading();
}

Error Executor::finishLoading() {
  if (!loading)
    return Error::success();
  if (Error error = loading->awaitAll())
    return error;
  loading.reset();
  loadingOrder.clear();
  return Error::success();
}

Expected<DeviceGraph *> Executor::graphFor(const PlanFunction &function, const Call &call) {
  std::unique_ptr<DeviceGraph> &graph = graphs[{function.name, call.dims, call.firstRow}];
  if (!graph) {
    auto launches = resolve(function, call);
    if (!launches)
      return launches.takeError();
    auto made = theDevice.makeGraph(std::move(*launches));
    if (!made)
      return made.takeError();
    graph = std::move(*made);
  }
  return graph.get();
}

Error Executor::repeat(const Call &call) {
  if (thePlan.stepByStep)
    return launch(call);
  if (Error error = finishLoading())
    return error;
  Expected<DeviceGraph *> graph = graphFor(*thePlan.findFunction(call.function), call);
  return graph ? theDevice.run(**graph) : graph.takeError();
}

Error Executor::launch(const Call &call) {
  if (Error error = finishLoading())
    return error;
  auto launches = resolve(*thePlan.findFunction(call.function), call);
  if (!launches)
    return launches.takeError();
  for (const KernelLaunch &one : *launches)
    if (Error error = theDevice.launch(one))
      return error;
  return Error::success();
}

Expected<std::unique_ptr<DeviceGraph>> Executor::record(ArrayRef<Call> calls) {
  if (Error error = finishLoading())
    return error;
  std::vector<KernelLaunch> all;
  for (const Call &call : calls) {
    auto launches = resolve(*thePlan.findFunction(call.function), call);
    if (!launches)
      return launches.takeError();
    llvm::append_range(all, *launches);
  }
  return theDevice.makeGraph(std::move(all));
}

Expected<char *> Executor::addressOf(const Call &call, StringRef tensor) const {
  auto placed = place(*thePlan.findFunction(call.function), call);
  if (!placed)
    return placed.takeError();
  auto it = placed->find(tensor);
  if (it == placed->end())
    return makeError("@" + call.function + " has no tensor '" + tensor + "'");
  return it->second.address;
}

Error Executor::copyRow(int64_t from, int64_t to) {
  DimBinding one = largestDims();
  one["B"] = 1;
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

Expected<std::vector<KernelLaunch>> Executor::launches(const Call &call) const {
  return resolve(*thePlan.findFunction(call.function), call);
}

Error Executor::runObserved(const PlanFunction &function, const Call &call) {
  if (Error error = finishLoading())
    return error;
  auto launches = resolve(function, call);
  if (!launches)
    return launches.takeError();
  if (Error error = observer->onCall(call))
    return error;
  for (const auto &[i, launch] : llvm::enumerate(*launches)) {
    if (Error error = theDevice.launch(launch))
      return error;
    if (Error error = theDevice.synchronize())
      return error;
    if (Error error = observer->onStep(function, i))
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
  assert(element + count <= place.elements && "download past the end of a tensor");
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
