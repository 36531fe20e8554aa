#include "tools/tune/StepComparer.h"

#include "support/Number.h"

#include <cmath>

namespace kiln {

/// Activations, arguments and states: what is not a weight, nor scratch.
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
  return DType::F32;
}

static Expected<std::string> download(Device &device, const LaunchTensor &tensor) {
  std::string bytes(tensor.bytes, '\0');
  if (Error error = device.download(bytes.data(), tensor.address, tensor.bytes))
    return error;
  return bytes;
}

Error StepComparer::remember(Executor &executor, const Executor::Call &call, const std::set<size_t> &steps) {
  // Uploads the arguments, and finishes loading.
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

static bool isClose(StringRef got, StringRef wanted, DType dtype, StepTolerance tolerance) {
  int64_t count = static_cast<int64_t>(wanted.size()) / dtypeSize(dtype);
  double largest = 0;
  for (int64_t i = 0; i < count; ++i)
    if (float value = loadElement(wanted.data(), dtype, i); std::isfinite(value))
      largest = std::max<double>(largest, std::abs(value));
  for (int64_t i = 0; i < count; ++i) {
    double want = loadElement(wanted.data(), dtype, i), is = loadElement(got.data(), dtype, i);
    double allowed = 2 * (tolerance.ofElement * std::abs(want) + tolerance.ofLargest * largest);
    // What nobody wrote may be NaN in both.
    bool agree = want == is || std::isnan(want) || (std::isfinite(want) && std::abs(want - is) <= allowed);
    if (!agree)
      return false;
  }
  return true;
}

Expected<bool> StepComparer::agrees(Executor &executor, const Executor::Call &call, size_t step) const {
  auto launches = executor.launches(call);
  if (!launches)
    return launches.takeError();
  const KernelLaunch &launch = (*launches)[step];
  const Step &known = remembered.find(step)->second;
  Device &device = executor.device();
  auto tensors = activations(launch, executor.plan());
  for (const LaunchTensor *tensor : tensors) {
    std::string bytes = known.before.find(tensor->name)->second.bytes;
    // All ones is NaN in every type; a state is written in part.
    if (tensor->isFresh)
      bytes.assign(bytes.size(), '\xff');
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
    if (!isClose(*bytes, wanted.bytes, wanted.dtype, tolerance))
      return false;
  }
  return true;
}

} // namespace kiln
