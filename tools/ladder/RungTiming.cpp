// Timing of rungs.
#include "tools/ladder/RungRunner.h"

#include "kernels/cost/Occupancy.h"
#include "runtime/generation/Generator.h"
#include "runtime/generation/UncachedModel.h"
#include "support/Diagnostic.h"
#include "support/process/Parallel.h"

#include <chrono>

namespace kiln {

/// Adds up the cost of launches; `ops` are the ops of their steps, one for each launch.
static void count(ArrayRef<KernelLaunch> launches, ArrayRef<const Op *> ops, const DimBinding &dims, DType dtype,
                  const Target &target, RungResult &result) {
  for (const auto &[launch, op] : llvm::zip(launches, ops)) {
    StepCost cost = cantFail(launch.step->cost(dims, /*past=*/0), "the executor has checked the dims");
    ++result.launches;
    result.cost += cost;
    result.limitSeconds += target.rooflineSeconds(cost.bytes, cost.flops, dtype, isRounded(*op));
    result.arithmeticRate = std::max(result.arithmeticRate, target.arithmeticRate(dtype, isRounded(*op)));
  }
}

Error RungRunner::timeSteps(Loaded &loaded, const LadderPart &part, RungResult &result) {
  Executor &executor = *loaded.executor;
  SampleCall sample(executor.plan(), {Entry::Prefill, part.batch, part.length});
  if (Error error = executor.enqueue(sample.call))
    return error;
  auto launches = executor.launches(sample.call);
  if (!launches)
    return launches.takeError();
  std::vector<KernelLaunch> own;
  std::vector<const Op *> ops;
  for (const auto &[launch, op] : llvm::zip(*launches, promptSteps(loaded.module).ops()))
    if (!part.takes || part.takes(*op)) {
      own.push_back(launch);
      ops.push_back(op.get());
    }
  if (own.empty())
    return makeError("nothing of this part is a kernel of its own");
  count(own, ops, sample.call.dims, executor.plan().dtype, *theTarget, result);
  if (Error error = findKernel(loaded, own, result))
    return error;
  if (!timed || part.timed != Timed::Steps)
    return Error::success();
  auto samples = timer->time(std::move(own), command.options);
  if (!samples)
    return samples.takeError();
  result.seconds = std::move(*samples);
  return Error::success();
}

/// Finds the kernel that takes longest, and its use of the GPU's resources.
Error RungRunner::findKernel(Loaded &loaded, ArrayRef<KernelLaunch> launches, RungResult &result) {
  std::map<std::string, std::vector<KernelLaunch>> byKernel;
  for (const KernelLaunch &launch : launches)
    byKernel[launch.planned->kernel].push_back(launch);
  double longest = -1;
  const PlanLaunch *planned = nullptr;
  for (auto &[kernel, own] : byKernel) {
    const PlanLaunch *first = own.front().planned;
    double seconds = 0;
    if (timed && byKernel.size() > 1) {
      auto samples =
          timer->time(std::move(own), {.samples = 3, .warmUp = 0, .mostSeconds = command.options.mostSeconds});
      if (!samples)
        return samples.takeError();
      seconds = medianOf(std::move(*samples));
    }
    if (seconds > longest) {
      longest = seconds;
      planned = first;
    }
  }
  const PlanKernel *kernel = loaded.executor->plan().findKernel(planned->kernel);
  if (!kernel)
    return Error::success(); // a library's kernel, which has no record
  result.kernel = kernel->name;
  auto known = kernel->resources.find(command.target);
  if (known == kernel->resources.end())
    return Error::success();
  result.resources = known->second;
  result.sharedBytes = known->second.sharedBytes + planned->dynamicShared;
  result.occupancy = occupancyOf({planned->threads, known->second.registers, result.sharedBytes}, *theTarget).share;
  return Error::success();
}

Error RungRunner::timeCall(Loaded &loaded, const LadderPart &part, RungResult &result) {
  auto measured = measureCall(*loaded.executor, {Entry::Prefill, part.batch, part.length}, command.options);
  if (!measured)
    return measured.takeError();
  if (part.timed == Timed::Call)
    result.seconds = measured->seconds;
  result.callSamples = std::move(measured->seconds);
  return Error::success();
}

/// Times whole runs on the host's clock, after one run to warm up.
Error RungRunner::timeRuns(RungResult &result, function_ref<Error()> run) const {
  constexpr int runs = 3;
  for (int i = -1; i < runs; ++i) {
    auto start = std::chrono::steady_clock::now();
    if (Error error = run())
      return error;
    std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    if (i >= 0 && timed)
      result.seconds.push_back(elapsed.count());
  }
  return Error::success();
}

Error RungRunner::timeGeneration(Loaded &loaded, const LadderPart &part, RungResult &result) {
  GenerateOptions options;
  options.maxNewTokens = newTokens(part);
  options.sampling.greedy = true;
  options.ignoreEos = true;
  UncachedModel uncached(*loaded.model);
  bool isCached = loaded.executor->plan().entries.decode.has_value();
  LanguageModel &model = isCached ? static_cast<LanguageModel &>(*loaded.model) : uncached;
  return timeRuns(result, [&] { return generate(model, nullptr, promptsOf(part), options).takeError(); });
}

Error RungRunner::timeFirstToken(const CompiledPlan &compiled, const LadderPart &part, RungResult &result) {
  return timeRuns(result, [&]() -> Error {
    Expected<Loaded> loaded = load(compiled, *weights, {part.batch, part.length, {Entry::Prefill}});
    if (!loaded)
      return loaded.takeError();
    Logits logits(part.batch);
    return loaded->model->prefill(promptsOf(part), logits);
  });
}

Error RungRunner::timeBatch(const CompiledPlan &compiled, const LadderPart &part, const Rung &rung,
                            const Logits &expected, RungResult &result) {
  SmallVector<Device *, 8> devices = {device.get()};
  if (rung.devices != BatchDevices::One)
    for (const auto &other : others)
      devices.push_back(other.get());
  const std::vector<std::vector<int32_t>> prompts = promptsOf(part);
  const size_t share = llvm::divideCeil(prompts.size(), devices.size());
  std::vector<std::unique_ptr<Executor>> executors;
  auto load = [&] {
    executors.clear();
    return Executor::createReplicas(devices, compiled.plan, {compiled.directory, ""}, *weights,
                                    {static_cast<int64_t>(share), part.length, {Entry::Prefill}})
        .moveInto(executors);
  };
  Logits logits(prompts.size());
  auto evaluateShare = [&](size_t i) -> Error {
    const size_t first = std::min(i * share, prompts.size()), count = std::min(share, prompts.size() - first);
    if (count == 0)
      return Error::success();
    PlanModel model(*executors[i]);
    if (Error error = model.makeCurrent())
      return error;
    return model.prefill(ArrayRef(prompts).slice(first, count), MutableArrayRef(logits).slice(first, count));
  };
  if (Error error = load())
    return error;
  auto run = [&]() -> Error {
    if (rung.devices == BatchDevices::AllEachTime)
      if (Error error = load())
        return error;
    return runThreads(executors.size(), evaluateShare);
  };
  if (Error error = timeRuns(result, run))
    return error;
  addDifferences(expected, logits, result.error);
  result.limitSeconds /= static_cast<double>(devices.size());
  return device->makeCurrent();
}

/// Takes all times of a loaded plan.
Error RungRunner::time(Loaded &loaded, const LadderPart &part, RungResult &result) {
  if (part.timed == Timed::Generation)
    return timeGeneration(loaded, part, result);
  if (Error error = timeSteps(loaded, part, result))
    return error;
  bool isCall = part.timed != Timed::FirstToken && part.timed != Timed::Batch;
  return timed && isCall ? timeCall(loaded, part, result) : Error::success();
}

} // namespace kiln
