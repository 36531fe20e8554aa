#include "tools/tune/StepComparer.h"

#include "runtime/device/emulated/memory/Guard.h"
#include "support/text/Number.h"

#include <cmath>

namespace kiln {

/// The activations, arguments and states of a launch: all tensors but weights and scratch memory.
static SmallVector<const LaunchTensor *, 8> activations(const KernelLaunch &launch, const Plan &plan) {
  SmallVector<const LaunchTensor *, 8> tensors;
  for (const LaunchTensor &tensor : launch.tensors) {
    StringRef name = tensor.name;
    auto isThis = [&](const PlanWeight &weight) { return weight.name == name; };
    if (name.consume_front("%") && llvm::none_of(plan.weights, isThis))
      tensors.push_back(&tensor);
  }
  return tensors;
}

static DType dtypeOf(const Plan &plan, const PlanFunction &function, StringRef tensorName) {
  StringRef name = tensorName.drop_front();
  for (const PlanBuffer &buffer : function.buffers)
    if (buffer.tensor.name == name)
      return buffer.tensor.dtype;
  for (const auto *list : {&function.arguments, &plan.states})
    for (const PlanTensor &tensor : *list)
      if (tensor.name == name)
        return tensor.dtype;
  llvm_unreachable("a launch has tensors of its plan");
}

/// Fills results with a NaN that no kernel computes, so that elements left unwritten show, as on the emulated device. A
/// state keeps its content, since a step writes only part of it.
static Error poisonResults(Device &device, ArrayRef<const LaunchTensor *> tensors) {
  for (const LaunchTensor *tensor : tensors) {
    if (!tensor->isFresh)
      continue;
    std::string bytes(tensor->bytes, '\0');
    fillWords(bytes.data(), bytes.size(), poisonWord);
    if (Error error = device.upload(tensor->address, bytes.data(), tensor->bytes))
      return error;
  }
  return Error::success();
}

static Expected<std::string> download(Device &device, const LaunchTensor &tensor) {
  std::string bytes(tensor.bytes, '\0');
  if (Error error = device.download(bytes.data(), tensor.address, tensor.bytes))
    return error;
  return bytes;
}

Error StepComparer::remember(Executor &executor, const Executor::Call &call, const std::set<size_t> &steps) {
  // Uploads the arguments, and waits until loading has finished.
  if (Error error = executor.enqueue(call))
    return error;
  auto launches = executor.launches(call);
  if (!launches)
    return launches.takeError();
  const Plan &plan = executor.plan();
  const PlanFunction &function = plan.function(call.entry);
  Device &device = executor.device();
  for (const auto &[i, launch] : llvm::enumerate(*launches)) {
    auto keep = [&](std::map<std::string, Memory> Step::*when) -> Error {
      if (!steps.count(i))
        return Error::success();
      for (const LaunchTensor *tensor : activations(launch, plan)) {
        if (when == &Step::after && !tensor->isWritten)
          continue;
        Expected<std::string> bytes = download(device, *tensor);
        if (!bytes)
          return bytes.takeError();
        (remembered[i].*when)[tensor->name] = {std::move(*bytes), dtypeOf(plan, function, tensor->name)};
      }
      return Error::success();
    };
    if (steps.count(i))
      if (Error error = poisonResults(device, activations(launch, plan)))
        return error;
    if (Error error = keep(&Step::before))
      return error;
    if (Error error = device.launch(launch))
      return error;
    if (Error error = device.synchronize())
      return error;
    if (Error error = keep(&Step::after))
      return error;
  }
  return Error::success();
}

/// An element of a tensor in memory.
struct Element {
  StringRef bits;
  double value;

  Element(StringRef tensor, DType dtype, int64_t i)
      : bits(tensor.substr(static_cast<size_t>(i * dtypeSize(dtype)), static_cast<size_t>(dtypeSize(dtype)))),
        value(loadElement(tensor.data(), dtype, i)) {}

  bool isPoison() const { return holdsPoison(bits.data(), bits.size()); }
  std::string str() const { return isPoison() ? "nothing written" : numberText(value); }
};

/// Whether both are equal, or both NaN (but not the poison), or close enough.
static bool agree(const Element &got, const Element &wanted, double allowed) {
  if (got.bits == wanted.bits || got.value == wanted.value)
    return true;
  if (got.isPoison() || wanted.isPoison())
    return false;
  if (std::isnan(wanted.value))
    return std::isnan(got.value);
  return std::isfinite(wanted.value) && std::abs(wanted.value - got.value) <= allowed;
}

/// Describes the first element that does not agree; empty if all do.
static std::string differenceOf(StringRef got, StringRef wanted, DType dtype, StepTolerance tolerance) {
  int64_t count = static_cast<int64_t>(wanted.size()) / dtypeSize(dtype);
  double largest = 0;
  for (int64_t i = 0; i < count; ++i)
    if (float value = loadElement(wanted.data(), dtype, i); std::isfinite(value))
      largest = std::max<double>(largest, std::abs(value));
  for (int64_t i = 0; i < count; ++i) {
    Element want(wanted, dtype, i), is(got, dtype, i);
    double allowed = 2 * (tolerance.ofElement * std::abs(want.value) + tolerance.ofLargest * largest);
    if (!agree(is, want, allowed))
      return "element " + std::to_string(i) + ": expected " + want.str() + ", got " + is.str();
  }
  return "";
}

Expected<std::string> StepComparer::difference(Executor &executor, const Executor::Call &call, size_t step) const {
  auto launches = executor.launches(call);
  if (!launches)
    return launches.takeError();
  const KernelLaunch &launch = (*launches)[step];
  const Step &known = remembered.find(step)->second;
  Device &device = executor.device();
  auto tensors = activations(launch, executor.plan());
  for (const LaunchTensor *tensor : tensors) {
    const std::string &bytes = known.before.find(tensor->name)->second.bytes;
    if (Error error = device.upload(tensor->address, bytes.data(), tensor->bytes))
      return error;
  }
  if (Error error = device.launch(launch))
    return error;
  if (Error error = device.synchronize())
    return error;
  StepTolerance tolerance = stepTolerance(executor.plan().dtype);
  for (const LaunchTensor *tensor : tensors) {
    if (!tensor->isWritten)
      continue;
    Expected<std::string> bytes = download(device, *tensor);
    if (!bytes)
      return bytes.takeError();
    const Memory &wanted = known.after.find(tensor->name)->second;
    if (std::string found = differenceOf(*bytes, wanted.bytes, wanted.dtype, tolerance); !found.empty())
      return tensor->name + ", " + found;
  }
  return "";
}

} // namespace kiln
