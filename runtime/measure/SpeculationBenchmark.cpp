#include "runtime/measure/SpeculationBenchmark.h"

#include "runtime/generation/Generator.h"
#include "runtime/measure/PretendedDraft.h"

#include <numeric>

namespace kiln {

SpeculationBenchmark::SpeculationBenchmark(LanguageModel &model, Executor &executor, const SpeculationShape &shape,
                                           int64_t samples)
    : model(model), executor(executor), shape(shape), samples(samples),
      prompt(sampleIds(shape.position, executor.plan().model.vocabulary)) {}

/// One sample.
Expected<SpeculationTimes> SpeculationBenchmark::generateOnce(Draft *draft, const DraftLength &length) {
  GenerateOptions options;
  options.maxNewTokens = shape.newTokens;
  options.sampling.greedy = true;
  options.draft = draft;
  options.draftLength = length;
  const std::vector<std::vector<int32_t>> prompts(shape.batch, prompt);
  Expected<std::vector<Generation>> rows = generate(model, /*tokenizer=*/nullptr, prompts, options);
  if (!rows)
    return rows.takeError();
  text = prompt;
  llvm::append_range(text, rows->front().newTokens);
  SpeculationTimes times;
  double longest = 0;
  for (const Generation &row : *rows) {
    ArrayRef<double> tokenMs = ArrayRef(row.tokenMs).drop_front();
    longest = std::max(longest, std::accumulate(tokenMs.begin(), tokenMs.end(), 0.0));
    times.tokens += static_cast<int64_t>(tokenMs.size());
    times.counts.add(row.speculation);
  }
  times.seconds = {longest * 1e-3 / static_cast<double>(shape.newTokens - 1)};
  return times;
}

Expected<SpeculationTimes> SpeculationBenchmark::timePlain() {
  SpeculationTimes all;
  for (int64_t i = -1; i < samples; ++i) {
    Expected<SpeculationTimes> one = generateOnce(/*draft=*/nullptr, {});
    if (!one)
      return one.takeError();
    if (i >= 0) // the first one warms up
      all.seconds.push_back(one->seconds.front());
    all.tokens += one->tokens;
  }
  return all;
}

Expected<SpeculationTimes> SpeculationBenchmark::time(Draft &draft, const DraftLength &length, double acceptance) {
  PretendedDraft pretended(draft, acceptance);
  SpeculationTimes all;
  for (int64_t i = -1; i < samples; ++i) {
    pretended.know(text, static_cast<int32_t>(i + 1));
    Expected<SpeculationTimes> one = generateOnce(&pretended, length);
    if (!one)
      return one.takeError();
    if (i < 0)
      continue;
    all.seconds.push_back(one->seconds.front());
    all.tokens += one->tokens;
    all.counts.add(one->counts);
  }
  return all;
}

/// The seconds of one run of a graph, or of a step of the sampler.
static Expected<std::vector<double>> timeRuns(Device &device, int64_t samples, function_ref<Error()> run) {
  constexpr int64_t runs = 10;
  std::vector<double> all;
  for (int64_t i = -1; i < samples; ++i) {
    Expected<double> seconds = device.measure([&]() -> Error {
      for (int64_t k = 0; k < runs; ++k)
        if (Error error = run())
          return error;
      return Error::success();
    });
    if (!seconds)
      return seconds.takeError();
    if (i >= 0)
      all.push_back(*seconds / runs);
  }
  return all;
}

Expected<PassTimes> SpeculationBenchmark::timePass(Draft &draft, int64_t guesses) {
  Expected<std::unique_ptr<DeviceSampler>> sampler = DeviceSampler::create(executor);
  if (!sampler)
    return sampler.takeError();
  Expected<DeviceDraft *> onDevice = draft.onDevice(**sampler);
  if (!onDevice)
    return onDevice.takeError();
  std::vector<RowStart> starts;
  for (int64_t row = 0; row < shape.batch; ++row)
    starts.push_back({.row = static_cast<size_t>(row), .tokens = prompt, .sampling = {.greedy = true}});
  if (Error error = (*sampler)->prefill(0, starts))
    return error;
  if (Error error = (*onDevice)->start(0, starts))
    return error;
  Device &device = executor.device();
  auto timeLaunches = [&](Expected<std::vector<KernelLaunch>> launches) -> Expected<std::vector<double>> {
    if (!launches)
      return launches.takeError();
    auto graph = device.makeGraph(std::move(*launches));
    if (!graph)
      return graph.takeError();
    return timeRuns(device, samples, [&] { return device.run(**graph); });
  };
  PassTimes times;
  if (Error error = (*sampler)->prepareStep(shape.batch))
    return error;
  if (Error error = timeRuns(device, samples, [&] { return (*sampler)->step(shape.batch); }).moveInto(times.plain))
    return error;
  if (Error error = timeLaunches((*onDevice)->launches(shape.batch, guesses)).moveInto(times.draft))
    return error;
  if (Error error = timeLaunches((*onDevice)->checkLaunches(shape.batch)).moveInto(times.check))
    return error;
  // The draft must not keep what is on this sampler.
  draft.leaveDevice();
  return times;
}

} // namespace kiln
