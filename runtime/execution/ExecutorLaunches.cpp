// Makes the launches of a call: evaluates all formulas over dims and finds the address of every tensor.
#include "runtime/execution/Executor.h"

#include "support/Diagnostic.h"

namespace kiln {

/// The caller's memory for an argument; null if it has none of its own.
static const Executor::Binding *findBinding(const Executor::Call &call, StringRef argument) {
  auto found = llvm::find_if(call.bindings, [&](const auto &binding) { return binding.argument == argument; });
  return found == call.bindings.end() ? nullptr : &*found;
}

/// Adds a tensor of a call, whose size and type it fills in.
Error Executor::addPlacement(Placements &placed, const PlanTensor &tensor, const Call &call, Placement place) {
  Expected<int64_t> bytes = tensor.bytes().evaluate(call.dims);
  if (!bytes)
    return bytes.takeError();
  place.dtype = tensor.dtype;
  place.elements = *bytes / dtypeSize(tensor.dtype);
  placed[tensor.name] = place;
  return Error::success();
}

/// The bytes of so many sequences of a tensor.
Expected<int64_t> Executor::bytesOfRows(const PlanTensor &tensor, const Call &call, int64_t rows) const {
  DimBinding dims = call.dims;
  dims[thePlan.entries.batch] = rows;
  return tensor.bytes().evaluate(dims);
}

/// The place in this call of everything but weights that the function's steps name.
Expected<Executor::Placements> Executor::place(const PlanFunction &function, const Call &call) const {
  if (Error error = checkDims(call))
    return error;
  Placements placed;
  for (const PlanTensor &state : thePlan.states) {
    // A sequence's share of a state has the size of the state for a batch of one.
    Expected<int64_t> ofRow = bytesOfRows(state, call, 1);
    if (!ofRow)
      return ofRow.takeError();
    char *address = states.find(state.name)->second.address() + call.firstRow * *ofRow;
    if (Error error = addPlacement(placed, state, call, {.address = address, .isState = true}))
      return error;
  }
  for (const PlanTensor &argument : function.arguments) {
    const Binding *bound = findBinding(call, argument.name);
    auto own = arguments.find(function.name + "/" + argument.name);
    if (!bound && own == arguments.end())
      return makeError("@" + function.name + ": argument %" + argument.name + ": expected memory, got none");
    // Halves of a call share its arguments: each has those of its rows.
    Expected<int64_t> before = bytesOfRows(argument, call, call.lane.rowsBefore);
    if (!before)
      return before.takeError();
    char *address = (bound ? bound->address : own->second.address()) + *before;
    if (Error error = addPlacement(placed, argument, call, {.address = address}))
      return error;
  }
  if (Error error = placeBuffers(placed, function, call))
    return error;
  return placed;
}

Error Executor::placeBuffers(Placements &placed, const PlanFunction &function, const Call &call) const {
  HalvedArena halved;
  if (call.lane.isHalf || isHalved(function, call.dims))
    if (Error error = halvedArena(function).moveInto(halved))
      return error;
  for (const PlanBuffer &buffer : function.buffers) {
    const PlanTensor &tensor = buffer.tensor;
    // Halves share the results, as they share arguments.
    auto result = halved.results.find(tensor.name);
    const bool isShared = result != halved.results.end();
    Expected<int64_t> offset =
        isShared ? bytesOfRows(tensor, call, call.lane.rowsBefore) : buffer.offset.evaluate(call.dims);
    if (!offset)
      return offset.takeError();
    char *address = arena.address() + (isShared ? result->second : call.lane.arena) + *offset;
    if (Error error = addPlacement(placed, tensor, call, {.address = address, .madeBy = buffer.first}))
      return error;
  }
  return Error::success();
}

/// Adds the word of a step's argument and, if the word is an address, the tensor there.
Error Executor::addArgument(KernelLaunch &launch, StringRef name, const PlanFunction &function, const Call &call,
                            const Placements &placed) const {
  const PlanStep &step = *launch.step;
  LaunchTensor tensor;
  if (name == "@workspace") {
    Expected<int64_t> offset = step.workspace->offset.evaluate(call.dims),
                      bytes = step.workspace->bytes.evaluate(call.dims);
    if (!offset)
      return llvm::joinErrors(offset.takeError(), bytes.takeError());
    if (!bytes)
      return bytes.takeError();
    tensor = {"@workspace", arena.address() + call.lane.arena + *offset, *bytes, /*isWritten=*/true, /*isFresh=*/true};
  } else if (name == "@counters") {
    Expected<int64_t> count = step.counters.evaluate(call.dims);
    if (!count)
      return count.takeError();
    tensor = {"@counters", counters.address() + call.lane.number * counterBytesOfLane, *count * 4, /*isWritten=*/true,
              /*isFresh=*/false};
  } else if (name == "@mailboxes") {
    char *address = mailboxes.find(&step)->second.address() + call.lane.number * mailboxBytesOfLane(step);
    tensor = {"@mailboxes", address, step.mailboxes, /*isWritten=*/true, /*isFresh=*/false};
  } else if (name.consume_front("%")) {
    auto own = placed.find(name);
    const Placement &place = own != placed.end() ? own->second : weightPlaces.find(name)->second;
    bool isResult = place.madeBy == &step - function.steps.data();
    const Binding *bound = findBinding(call, name);
    bool isWritten = isResult || place.isState || (bound && bound->isWritten);
    tensor = {("%" + name).str(), place.address, place.elements * dtypeSize(place.dtype), isWritten, isResult};
  } else if (std::optional<int64_t> of = inboxOf(name)) {
    char *address = inboxes[static_cast<size_t>(*of)] + call.lane.number * inboxBytesOfLane;
    tensor = {name.str(), address, inboxBytesOfLane, /*isWritten=*/true, /*isFresh=*/false};
  } else if (std::optional<int64_t> of = mailboxesOf(name)) {
    char *address = inboxes[static_cast<size_t>(*of)] + mailboxOffsets.find(&step)->second;
    tensor = {name.str(), address, step.mailboxes, /*isWritten=*/true, /*isFresh=*/false};
  } else if (std::optional<RankBuffer> own = rankBufferOf(name)) {
    // The arenas of all ranks have the same layout.
    const Placement &place = placed.find(own->buffer)->second;
    const int64_t offset = place.address - arena.address(), bytes = place.elements * dtypeSize(place.dtype);
    if (offset < 0 || offset + bytes > arena.bytes())
      return makeError("@" + function.name + ": argument " + name + ": expected memory in the arena");
    bool isResult = place.madeBy == &step - function.steps.data();
    const Binding *bound = findBinding(call, own->buffer);
    tensor = {name.str(), arenas[static_cast<size_t>(own->rank)] + offset, bytes,
              isResult || (bound && bound->isWritten), isResult && own->rank == rank};
  } else if (name == "@stop") {
    tensor = {"@stop", stop.address(), stop.bytes(), /*isWritten=*/false, /*isFresh=*/false};
  } else if (name == "@rank") {
    launch.arguments.push_back(static_cast<uint64_t>(rank));
    return Error::success();
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
  launch.kernel = kernels.find(planned);
  launch.threads = static_cast<uint32_t>(planned.threads);
  launch.dynamicShared = static_cast<uint32_t>(planned.dynamicShared);
  const PlanKernel &kernel = *thePlan.findKernel(planned.kernel);
  launch.cluster = static_cast<uint32_t>(kernel.cluster);
  for (size_t i = 0; i < planned.arguments.size();
       i += static_cast<size_t>(kernel.argumentsAt(static_cast<int64_t>(i))))
    launch.parameters.push_back(i);
  for (auto [extent, expr] : llvm::zip(launch.grid, planned.grid)) {
    Expected<int64_t> value = expr.evaluate(call.dims);
    if (!value)
      return value.takeError();
    if (*value < 1 || *value > INT32_MAX)
      return makeError("step '" + planned.kernel + "': a grid of " + Twine(*value) + " blocks cannot be launched");
    extent = static_cast<uint32_t>(*value);
  }
  if (call.lane.isHalf && planned.halfBlocks != 0)
    launch.grid[0] = std::min(launch.grid[0], static_cast<uint32_t>(planned.halfBlocks));
  return fillMaps(launch, kernel, call);
}

/// The values of formulas in this call.
static Expected<SmallVector<uint64_t, 5>> valuesOf(ArrayRef<Expr> formulas, const DimBinding &dims) {
  SmallVector<uint64_t, 5> values;
  for (const Expr &formula : formulas) {
    Expected<int64_t> value = formula.evaluate(dims);
    if (!value)
      return value.takeError();
    values.push_back(static_cast<uint64_t>(*value));
  }
  return values;
}

Error Executor::fillMaps(KernelLaunch &launch, const PlanKernel &kernel, const Call &call) {
  for (const PlanTensorMap &planned : kernel.maps) {
    auto extents = valuesOf(planned.extents, call.dims);
    if (!extents)
      return extents.takeError();
    auto strides = valuesOf(planned.strides, call.dims);
    if (!strides)
      return strides.takeError();
    auto box = valuesOf(planned.box, call.dims);
    if (!box)
      return box.takeError();
    for (int64_t i = 0; i < kernel.argumentsAt(planned.argument); ++i)
      launch.maps.push_back({static_cast<size_t>(planned.argument + i), planned.dtype, *extents, *strides,
                             SmallVector<uint32_t, 5>(box->begin(), box->end())});
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
  Expected<Placements> placed = place(function, call);
  return placed ? resolve(function, call, *placed) : placed.takeError();
}

Expected<std::vector<KernelLaunch>> Executor::resolve(const PlanFunction &function, const Call &call,
                                                      const Placements &placed) const {
  std::vector<KernelLaunch> launches;
  launches.reserve(function.steps.size());
  for (const PlanStep &step : function.steps)
    if (Error error = resolveStep(function, step, call, placed).moveInto(launches.emplace_back()))
      return error;
  return launches;
}

Expected<KernelLaunch> Executor::resolveStep(const PlanFunction &function, const PlanStep &step, const Call &call,
                                             const Placements &placed) const {
  const PlanLaunch &planned = step.launchFor(call.dims);
  KernelLaunch launch;
  // A kernel that waits for the one before it would be where the other half's could work; if it waited for an exchange,
  // the other half's exchange, which another rank waits for, might never find a place.
  launch.startsAfterAll = &step == function.steps.data() || thePlan.serial || call.lane.isHalf;
  launch.step = &step;
  launch.planned = &planned;
  if (Error error = step.matmul ? fillMatmul(launch, call) : fillKernel(launch, call))
    return error;
  for (StringRef name : planned.arguments)
    if (Error error = addArgument(launch, name, function, call, placed))
      return error;
  return launch;
}

Expected<std::vector<KernelLaunch>> Executor::launches(const Call &call) const {
  return resolve(thePlan.function(call.entry), call);
}

} // namespace kiln
