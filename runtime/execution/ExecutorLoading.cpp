// An executor's work before it runs: it loads kernels, allocates memory, and starts the upload of weights.
#include "runtime/execution/Executor.h"

#include "runtime/device/NvtxRange.h"
#include "runtime/weights/PackWeight.h"
#include "support/Diagnostic.h"

namespace kiln {

Expected<std::unique_ptr<Executor>> Executor::create(Device &device, Plan plan, const KernelFiles &files,
                                                     const WeightSource &weights, const Options &options) {
  auto replicas = createReplicas(&device, plan, files, weights, options);
  if (!replicas)
    return replicas.takeError();
  return std::move(replicas->front());
}

Expected<std::vector<std::unique_ptr<Executor>>> Executor::createReplicas(ArrayRef<Device *> devices, const Plan &plan,
                                                                          const KernelFiles &files,
                                                                          const WeightSource &weights,
                                                                          const Options &options) {
  std::vector<std::unique_ptr<Executor>> replicas;
  for (Device *device : devices) {
    if (Error error = prepare(*device, plan, options, /*ranks=*/1).moveInto(replicas.emplace_back()))
      return error;
    replicas.back()->replica = replicas.size() - 1;
  }
  // Start packing now: it goes on while kernels are loaded.
  if (Error error = loadWeights(replicas, weights))
    return error;
  for (auto &executor : replicas)
    if (Error error = executor->finishCreation(files))
      return error;
  return replicas;
}

/// Makes the executor of a device, up to the memory for its weights.
Expected<std::unique_ptr<Executor>> Executor::prepare(Device &device, const Plan &plan, const Options &options,
                                                      size_t ranks) {
  std::unique_ptr<Executor> executor(new Executor(device, plan, options));
  if (Error error = device.makeCurrent())
    return error;
  if (Error error = executor->checkOptions(ranks))
    return error;
  executor->restrictPlan();
  if (Error error = executor->checkMemory())
    return error;
  if (Error error = executor->allocateWeights())
    return error;
  return executor;
}

Executor::~Executor() {
  if (loading)
    loading->abandon();
}

Error Executor::finishCreation(const KernelFiles &files) {
  if (Error error = theDevice.makeCurrent())
    return error;
  if (Error error = loadKernels(files))
    return error;
  if (Error error = allocateMemory())
    return error;
  return thePlan.weightsFirst ? finishLoading() : Error::success();
}

void Executor::restrictPlan() {
  // DeviceSampler calls these, on memory of its own.
  SmallVector<Entry, 8> kept = {Entry::Sample, Entry::Generate};
  if (llvm::is_contained(capacity.entries, Entry::Verify))
    llvm::append_range(kept, speculationEntries);
  llvm::append_range(kept, capacity.entries);
  thePlan.restrictTo(kept, largestDims());
}

Error Executor::loadKernels(const KernelFiles &from) {
  files = from;
  Expected<LoadedKernels> loaded = LoadedKernels::load(theDevice, thePlan, files);
  if (!loaded)
    return loaded.takeError();
  kernels = std::move(*loaded);
  return Error::success();
}

bool Executor::isWanted(const PlanFunction &function) const {
  std::optional<Entry> entry = findEntry(function.name);
  return entry && llvm::is_contained(capacity.entries, *entry);
}

/// All weights, in the order of their first use by the functions.
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
  for (Entry entry : capacity.entries)
    for (const PlanStep &step : thePlan.function(entry).steps) {
      for (StringRef argument : step.launch.arguments)
        if (auto it = byName.find(argument.ltrim('%')); argument.starts_with("%") && it != byName.end())
          add(*it->second);
      for (const PlanConstant &constant : step.launch.constants)
        add(*byName.find(constant.weight)->second);
    }
  for (const PlanWeight &weight : thePlan.weights)
    add(weight);
  return ordered;
}

Error Executor::allocateWeights() {
  for (const PlanWeight *weight : weightsByUse()) {
    Expected<int64_t> bytes = packedSize(weight->recipe);
    if (!bytes)
      return bytes.takeError();
    auto memory = DeviceMemory::allocate(theDevice, std::max<int64_t>(*bytes, 1), "weight " + weight->name);
    if (!memory)
      return memory.takeError();
    loadingOrder.try_emplace(weight->name, loadingOrder.size());
    weightPlaces[weight->name] = {memory->address(), weight->recipe.dtype,
                                  memory->bytes() / dtypeSize(weight->recipe.dtype)};
    weights[weight->name] = std::move(*memory);
  }
  return Error::success();
}

/// Starts one upload for all executors.
Error Executor::loadWeights(ArrayRef<std::unique_ptr<Executor>> replicas, const WeightSource &source) {
  std::vector<WeightUpload::Item> items;
  for (const PlanWeight *weight : replicas.front()->weightsByUse()) {
    WeightUpload::Item &item = items.emplace_back(weight);
    for (const auto &executor : replicas)
      item.targets.push_back(executor->weights.find(weight->name)->second.address());
  }
  SmallVector<Device *, 1> devices;
  for (const auto &executor : replicas)
    devices.push_back(&executor->theDevice);
  auto started =
      WeightUpload::start(devices, source, std::move(items), replicas.front()->rank, replicas.front()->capacity.trace);
  if (!started)
    return started.takeError();
  std::shared_ptr<WeightUpload> shared = std::move(*started);
  for (const auto &executor : replicas)
    executor->loading = shared;
  return Error::success();
}

DimBinding Executor::largestDims() const {
  DimBinding dims;
  for (const PlanDim &dim : thePlan.dims)
    dims[dim.name] = dim.max;
  dims[thePlan.entries.batch] = capacity.batch;
  dims[thePlan.entries.tokens] = capacity.tokens;
  return dims;
}

Error Executor::allocateMemory() {
  DimBinding dims = largestDims();
  auto allocate = [&](DeviceMemory &memory, Expected<int64_t> bytes, StringRef what) -> Error {
    if (!bytes)
      return bytes.takeError();
    return DeviceMemory::allocate(theDevice, std::max<int64_t>(*bytes, 1), what).moveInto(memory);
  };
  for (const PlanTensor &state : thePlan.states) {
    DeviceMemory &memory = states[state.name];
    if (Error error = allocate(memory, state.bytes().evaluate(dims), "state " + state.name))
      return error;
    // Unwritten rows are read as well, but hidden by a mask or multiplied by a probability of zero: they must be
    // finite.
    if (Error error = theDevice.clear(memory.address(), memory.bytes()))
      return error;
  }
  for (const PlanFunction &function : thePlan.functions)
    if (isWanted(function))
      for (const PlanTensor &argument : function.arguments)
        if (Error error = allocate(arguments[function.name + "/" + argument.name], argument.bytes().evaluate(dims),
                                   "argument " + argument.name))
          return error;
  Expected<int64_t> ofArena = arenaBytes();
  if (!ofArena)
    return ofArena.takeError();
  if (Error error = allocateForRanks(std::max<int64_t>(*ofArena, 1), "arena").moveInto(arena))
    return error;
  Expected<int64_t> ofCounters = counterBytes();
  if (!ofCounters)
    return ofCounters.takeError();
  counterBytesOfLane = *ofCounters;
  if (Error error = allocate(counters, counterBytesOfLane * lanes(), "counters"))
    return error;
  // Kernels expect counters of zero, and leave them so.
  if (Error error = theDevice.clear(counters.address(), counters.bytes()))
    return error;
  return allocateMailboxes();
}

/// Of one lane.
int64_t Executor::mailboxBytesOfLane(const PlanStep &step) {
  return static_cast<int64_t>(llvm::alignTo(static_cast<uint64_t>(step.mailboxes), 256)); // as Device::allocate
}

/// Those that other ranks write to are part of the inbox.
Error Executor::allocateMailboxes() {
  for (const PlanFunction &function : thePlan.functions)
    for (const PlanStep &step : function.steps) {
      if (step.mailboxes == 0 || step.sharesMailboxes())
        continue;
      DeviceMemory &memory = mailboxes[&step];
      if (Error error =
              DeviceMemory::allocate(theDevice, mailboxBytesOfLane(step) * lanes(), "mailboxes").moveInto(memory))
        return error;
      if (Error error = theDevice.clear(memory.address(), memory.bytes()))
        return error;
    }
  return Error::success();
}

//===----------------------------------------------------------------------===//
// Weights that arrive
//===----------------------------------------------------------------------===//

/// Waits for the weights of a launch. Those up to `awaited` are known to be uploaded.
Error Executor::awaitWeights(const PlanLaunch &planned, std::optional<size_t> &awaited) {
  auto await = [&](StringRef name) -> Error {
    auto item = loadingOrder.find(name);
    if (item == loadingOrder.end() || (awaited && item->second <= *awaited))
      return Error::success();
    awaited = item->second;
    return loading->await(replica, *awaited);
  };
  for (StringRef argument : planned.arguments)
    if (argument.consume_front("%"))
      if (Error error = await(argument))
        return error;
  for (const PlanConstant &constant : planned.constants)
    if (Error error = await(constant.weight))
      return error;
  return Error::success();
}

/// Launches each step as soon as its weights are uploaded, then finishes loading.
Error Executor::runWhileLoading(const PlanFunction &function, const Call &call) {
  auto launches = resolveInSequence(function, call);
  if (!launches)
    return launches.takeError();
  NvtxRange range("@" + function.name + ", while weights are loaded");
  std::optional<size_t> awaited;
  for (KernelLaunch &launch : *launches) {
    if (Error error = awaitWeights(*launch.planned, awaited))
      return error;
    Expected<bool> hasNewConstants = kernels.fillConstants(*launch.planned, weights);
    if (!hasNewConstants)
      return hasNewConstants.takeError();
    launch.startsAfterAll |= *hasNewConstants;
    if (Error error = launchStep(function, launch))
      return error;
  }
  return finishLoading();
}

Error Executor::finishLoading() {
  if (Error error = theDevice.makeCurrent()) // the thread may have used another since
    return error;
  if (!loading)
    return Error::success();
  if (Error error = loading->awaitAll(replica))
    return error;
  // The next launch is the first of a call, so it waits for these copies.
  if (Error error = kernels.fillConstants(weights))
    return error;
  loading.reset();
  loadingOrder.clear();
  return Error::success();
}

} // namespace kiln
