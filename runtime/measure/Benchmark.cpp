#include "runtime/measure/Benchmark.h"

#include "support/Diagnostic.h"
#include "support/text/Json.h"

#include <cmath>

namespace kiln {

double percentileOf(std::vector<double> samples, double share) {
  if (samples.empty())
    return 0;
  llvm::sort(samples);
  return samples[std::min(samples.size() - 1, static_cast<size_t>(share * static_cast<double>(samples.size())))];
}

double medianOf(std::vector<double> samples) { return percentileOf(std::move(samples), 0.5); }

void addTimes(json::Object &object, ArrayRef<double> seconds) {
  if (seconds.empty())
    return;
  const std::pair<StringRef, double> shares[] = {
      {"min_us", 0}, {"median_us", 0.5}, {"p90_us", 0.9}, {"p99_us", 0.99}, {"max_us", 1}};
  for (const auto &[key, share] : shares)
    object[key] = jsonQuantity(percentileOf(seconds.vec(), share) * 1e6);
  object["samples_s"] = json::Array(llvm::map_range(seconds, jsonQuantity));
}

std::string CallShape::str() const {
  return formatv("{0} B={1} {2}={3}", entryName(entry), batch, continues() ? "position" : "T", length).str();
}

static DimBinding dimsOf(const Plan &plan, const CallShape &shape) {
  DimBinding dims = plan.bind(shape.batch, shape.tokens());
  if (shape.entry == Entry::Decode)
    CacheBounds(plan).addTo(dims, shape.position());
  return dims;
}

Expected<std::vector<Measurement>> countKernels(const Plan &plan, const PlanFunction &function, const DimBinding &dims,
                                                int64_t position) {
  for (const PlanDim &dim : plan.dims)
    if (auto given = dims.find(dim.name); given != dims.end() && (given->second < dim.min || given->second > dim.max))
      return makeError("@" + function.name + ": expected " + dim.name + " from " + Twine(dim.min) + " to " +
                       Twine(dim.max) + ", got " + Twine(given->second));
  std::map<std::string, Measurement> byKernel;
  for (const PlanStep &step : function.steps) {
    Expected<StepCost> cost = step.cost(dims, position);
    if (!cost)
      return cost.takeError();
    Measurement &count = byKernel[step.launchFor(dims).kernel];
    ++count.launches;
    count.cost += *cost;
  }
  std::vector<Measurement> counts;
  for (auto &[kernel, count] : byKernel) {
    count.what = kernel;
    counts.push_back(std::move(count));
  }
  return counts;
}

Expected<std::vector<Measurement>> countKernels(const Plan &plan, const CallShape &shape) {
  if (!plan.entries.has(shape.entry))
    return makeError("the plan has no entry '" + entryName(shape.entry) + "'");
  if (shape.position() >= plan.model.context)
    return makeError("@" + entryName(shape.entry) + ": expected a position below the context, " +
                     Twine(plan.model.context) + ", got " + Twine(shape.position()));
  return countKernels(plan, plan.function(shape.entry), dimsOf(plan, shape), shape.position());
}

Expected<Measurement> countCall(const Plan &plan, const CallShape &shape) {
  auto kernels = countKernels(plan, shape);
  if (!kernels)
    return kernels.takeError();
  Measurement result;
  result.what = shape.str();
  for (const Measurement &kernel : *kernels) {
    result.launches += kernel.launches;
    result.cost += kernel.cost;
  }
  return result;
}

std::vector<int32_t> sampleIds(int64_t count, int64_t vocabulary) {
  std::vector<int32_t> ids;
  for (int64_t i = 0; i < count; ++i)
    ids.push_back(static_cast<int32_t>(i % std::min<int64_t>(97, vocabulary)));
  return ids;
}

SampleCall::SampleCall(const Plan &plan, const CallShape &shape)
    : ids(sampleIds(shape.batch * shape.tokens(), plan.model.vocabulary)),
      perRow(shape.batch, static_cast<int32_t>(shape.length)), call{shape.entry, dimsOf(plan, shape), {}} {
  const PlanEntries &entries = plan.entries;
  if (shape.entry == Entry::Prefill)
    call.arguments = {{entries.prefill->tokens, ids}, {entries.prefill->lengths, perRow}};
  else if (shape.entry == Entry::Decode)
    call.arguments = {{entries.decode->tokens, ids}, {entries.decode->positions, perRow}};
  else
    call.arguments = {{entries.score->tokens, ids}, {entries.score->targets, ids}};
}

/// The options for runs that take `seconds`: with runs enough for the warm-up, reduced to the limit, or if times are
/// meaningless.
static BenchmarkOptions limited(const Device &device, BenchmarkOptions options, double seconds) {
  if (!device.isTimed())
    return {.samples = options.samples, .runsPerSample = 1, .warmUp = 0};
  if (options.agree)
    seconds = options.agree(seconds);
  if (seconds > 0)
    options.warmUp = std::max(options.warmUp, static_cast<int64_t>(std::ceil(options.warmUpSeconds / seconds)));
  if (options.mostSeconds <= 0 || seconds <= 0)
    return options;
  auto runs = static_cast<int64_t>(options.mostSeconds / seconds);
  options.runsPerSample = std::clamp<int64_t>(runs / options.samples, 1, options.runsPerSample);
  options.samples = std::clamp<int64_t>(runs, 3, options.samples);
  options.warmUp = std::clamp<int64_t>(runs / 4, 0, options.warmUp);
  return options;
}

double RankAgreement::largest(double number) {
  std::unique_lock lock(mutex);
  soFar = std::max(soFar, number);
  uint64_t round = rounds;
  if (++waiting == ranks) {
    agreed = soFar;
    soFar = 0;
    waiting = 0;
    ++rounds;
    changed.notify_all();
  }
  changed.wait(lock, [&] { return rounds > round || isAbandoned; });
  return isAbandoned ? number : agreed;
}

void RankAgreement::abandon() {
  std::lock_guard lock(mutex);
  isAbandoned = true;
  changed.notify_all();
}

/// Bytes that are copied at a time.
constexpr int64_t sweepPiece = int64_t(2) << 20;

Expected<KernelTimer> KernelTimer::create(Device &device) {
  // If times are meaningless, sweeping would only take time.
  int64_t bytes = device.isTimed() ? int64_t(256) << 20 : 1;
  auto sweep = DeviceMemory::allocate(device, bytes, "memory that sweeps the cache");
  if (!sweep)
    return sweep.takeError();
  // Else initcheck of compute-sanitizer reports each copy, which takes minutes.
  if (Error error = device.clear(sweep->address(), bytes))
    return error;
  return KernelTimer(device, std::move(*sweep));
}

Error KernelTimer::sweepCache() {
  auto *memory = static_cast<char *>(sweep.address());
  for (int64_t at = sweepPiece; at < sweep.bytes(); at += sweepPiece)
    if (Error error = device->copy(memory, memory + at, sweepPiece))
      return error;
  return Error::success();
}

Expected<std::vector<double>> KernelTimer::time(std::vector<KernelLaunch> launches, const BenchmarkOptions &options,
                                                StringRef what) {
  auto graph = device->makeGraph(std::move(launches));
  if (!graph)
    return graph.takeError();
  auto timeOnce = [&]() -> Expected<double> {
    if (Error error = sweepCache())
      return error;
    return device->measure([&] { return device->run(**graph); });
  };
  Expected<double> first = timeOnce();
  if (!first)
    return first.takeError();
  BenchmarkOptions counts = limited(*device, options, *first);
  for (int64_t i = 0; i < counts.warmUp; ++i)
    if (Error error = device->run(**graph))
      return error;
  std::vector<double> samples;
  for (int64_t i = 0; i < counts.samples; ++i) {
    Expected<double> seconds = timeOnce();
    if (!seconds)
      return seconds.takeError();
    samples.push_back(*seconds);
    if (options.onSample)
      options.onSample(what, *seconds);
  }
  return samples;
}

Expected<Measurement> measureCall(Executor &executor, const CallShape &shape, const BenchmarkOptions &options) {
  Expected<Measurement> result = countCall(executor.plan(), shape);
  if (!result)
    return result;
  SampleCall sample(executor.plan(), shape);
  result->launches *= executor.partCount(sample.call);
  if (Error error = executor.enqueue(sample.call))
    return error;
  auto timeRuns = [&](int64_t runs) {
    return executor.device().measure([&]() -> Error {
      for (int64_t run = 0; run < runs; ++run)
        if (Error error = executor.repeat(sample.call))
          return error;
      return Error::success();
    });
  };
  Expected<double> first = timeRuns(1);
  if (!first)
    return first.takeError();
  BenchmarkOptions counts = limited(executor.device(), options, *first);
  for (int64_t i = 0; i < counts.warmUp; ++i)
    if (Error error = executor.repeat(sample.call))
      return error;
  for (int64_t i = 0; i < counts.samples; ++i) {
    Expected<double> seconds = timeRuns(counts.runsPerSample);
    if (!seconds)
      return seconds.takeError();
    result->seconds.push_back(*seconds / static_cast<double>(counts.runsPerSample));
    if (options.onSample)
      options.onSample(result->what, *seconds);
  }
  return result;
}

Expected<std::vector<Measurement>> measureKernels(Executor &executor, const CallShape &shape,
                                                  const BenchmarkOptions &options) {
  if (auto counts = countKernels(executor.plan(), shape); !counts)
    return counts.takeError();
  SampleCall sample(executor.plan(), shape);
  if (Error error = executor.enqueue(sample.call))
    return error;
  auto launches = executor.launches(sample.call);
  if (!launches)
    return launches.takeError();
  Expected<KernelTimer> timer = KernelTimer::create(executor.device());
  if (!timer)
    return timer.takeError();
  std::map<std::string, std::vector<KernelLaunch>> byKernel;
  for (const KernelLaunch &launch : *launches)
    byKernel[launch.planned->kernel].push_back(launch);
  std::vector<Measurement> results;
  for (auto &[kernel, own] : byKernel) {
    Measurement &result = results.emplace_back();
    result.what = kernel;
    result.launches = static_cast<int64_t>(own.size());
    for (const KernelLaunch &launch : own)
      result.cost +=
          cantFail(launch.step->cost(sample.call.dims, shape.position()), "the executor has checked the dims");
    auto samples = timer->time(own, options, kernel);
    if (!samples)
      return samples.takeError();
    result.seconds = std::move(*samples);
    if (Error error = measurePhases(executor, own.front()).moveInto(result.phases))
      return error;
  }
  return results;
}

} // namespace kiln
