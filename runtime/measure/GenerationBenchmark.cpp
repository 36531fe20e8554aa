#include "runtime/measure/GenerationBenchmark.h"

#include "runtime/generation/sampling/DeviceSampler.h"
#include "support/Diagnostic.h"

namespace kiln {

Expected<Measurement> countGeneration(const Plan &plan, const CallShape &shape) {
  Expected<Measurement> result = countCall(plan, {Entry::Decode, shape.batch, shape.length});
  if (!result)
    return result;
  result->what = shape.str();
  if (!plan.entries.has(Entry::Sample))
    return makeError("the plan has no entry '" + entryName(Entry::Sample) + "'");
  auto choice = countKernels(plan, plan.function(Entry::Sample), plan.bind(shape.batch, 1), shape.length);
  if (!choice)
    return choice.takeError();
  for (const Measurement &kernel : *choice) {
    result->launches += kernel.launches;
    result->cost += kernel.cost;
  }
  if (plan.generates(shape.batch))
    result->launches = static_cast<int64_t>(plan.function(Entry::Generate).steps.size());
  return result;
}

namespace {

/// Sequences that start again for each sample.
class TimedGeneration {
public:
  TimedGeneration(DeviceSampler &sampler, const CallShape &shape, int64_t steps) : sampler(sampler), steps(steps) {
    for (int64_t row = 0; row < shape.batch; ++row)
      starts.push_back({.row = static_cast<size_t>(row),
                        .tokens = sampleIds(shape.length, sampler.executor().plan().model.vocabulary),
                        .sampling = {.greedy = true}});
  }

  /// The seconds of all steps.
  Expected<double> time() const {
    if (Error error = sampler.prefill(0, starts))
      return error;
    Expected<double> seconds = sampler.executor().device().measure([&]() -> Error {
      for (int64_t step = 0; step < steps; ++step)
        if (Error error = sampler.step(rows()))
          return error;
      return Error::success();
    });
    if (!seconds)
      return seconds;
    // Error: logits that are not finite.
    for (int64_t row = 0; row < rows(); ++row)
      if (Expected<int32_t> token = sampler.token(row, sampler.lastChoice(row)); !token)
        return token.takeError();
    return seconds;
  }

private:
  int64_t rows() const { return static_cast<int64_t>(starts.size()); }

  DeviceSampler &sampler;
  int64_t steps; ///< of a sample
  std::vector<RowStart> starts;
};

} // namespace

Expected<Measurement> measureGeneration(Executor &executor, const CallShape &shape, const BenchmarkOptions &options) {
  const Plan &plan = executor.plan();
  Expected<Measurement> result = countGeneration(plan, shape);
  if (!result)
    return result;
  auto sampler = DeviceSampler::create(executor);
  if (!sampler)
    return sampler.takeError();
  // The first token is the prompt's.
  const int64_t room = plan.model.context - shape.length - 1, ofStep = (*sampler)->stepTokens(shape.batch);
  if (shape.length < 1 || room < ofStep)
    return makeError(shape.str() + ": expected a position from 1 to " + Twine(plan.model.context - 1 - ofStep) +
                     ", which leaves room for a step's tokens, got " + Twine(shape.length));
  if (Error error = (*sampler)->reset())
    return error;
  if (Error error = (*sampler)->prepareStep(shape.batch))
    return error;
  const int64_t wanted = executor.device().isTimed() ? options.runsPerSample : 1;
  const int64_t steps = std::min<int64_t>(llvm::divideCeil(wanted, ofStep), room / ofStep);
  const TimedGeneration generation(**sampler, shape, steps);
  for (int64_t i = executor.device().isTimed() ? -1 : 0; i < options.samples; ++i) {
    Expected<double> seconds = generation.time();
    if (!seconds)
      return seconds.takeError();
    if (i < 0)
      continue;
    result->seconds.push_back(*seconds / static_cast<double>(steps * ofStep));
    if (options.onSample)
      options.onSample(result->what, *seconds);
  }
  return result;
}

} // namespace kiln
