#include "runtime/measure/SpeculationBenchmark.h"

#include "runtime/generation/Generator.h"
#include "runtime/measure/PretendedDraft.h"

#include <numeric>

namespace kiln {

SpeculationBenchmark::SpeculationBenchmark(LanguageModel &model, Executor &executor, const SpeculationShape &shape,
                                           int64_t samples)
    : model(model), executor(executor), shape(shape), samples(samples),
      prompt(sampleIds(shape.position, executor.plan().model.vocabulary)) {}

Expected<std::vector<Generation>> SpeculationBenchmark::generateOnce(Draft *draft, const DraftLength &length) {
  GenerateOptions options;
  options.maxNewTokens = shape.newTokens;
  options.sampling.greedy = true;
  options.draft = draft;
  options.draftLength = length;
  return generate(model, /*tokenizer=*/nullptr, std::vector(shape.batch, prompt), options);
}

/// Adds a sample.
void SpeculationTimes::add(ArrayRef<Generation> rows) {
  double longest = 0;
  size_t steps = 0; // of a row: all have the same
  for (const Generation &row : rows) {
    ArrayRef<double> tokenMs = ArrayRef(row.tokenMs).drop_front();
    longest = std::max(longest, std::accumulate(tokenMs.begin(), tokenMs.end(), 0.0));
    steps = tokenMs.size();
    tokens += static_cast<int64_t>(steps);
    counts.add(row.speculation);
  }
  seconds.push_back(longest * 1e-3 / static_cast<double>(steps));
}

/// All samples, after one to warm up. `draftOf` gives what guesses in a sample, or null.
Expected<SpeculationTimes> SpeculationBenchmark::timeSamples(const DraftLength &length,
                                                             function_ref<Draft *(int32_t sample)> draftOf) {
  SpeculationTimes times;
  for (int32_t sample = 0; sample <= samples; ++sample) {
    Expected<std::vector<Generation>> rows = generateOnce(draftOf(sample), length);
    if (!rows)
      return rows.takeError();
    if (sample > 0)
      times.add(*rows);
  }
  return times;
}

Expected<SpeculationTimes> SpeculationBenchmark::timePlain() {
  Expected<std::vector<Generation>> rows = generateOnce(/*draft=*/nullptr, {});
  if (!rows)
    return rows.takeError();
  text = prompt;
  llvm::append_range(text, rows->front().newTokens);
  return timeSamples({}, [](int32_t) { return nullptr; });
}

Expected<SpeculationTimes> SpeculationBenchmark::time(Draft &draft, const DraftLength &length, double acceptance) {
  PretendedDraft pretended(draft, acceptance);
  return timeSamples(length, [&](int32_t sample) {
    pretended.know(text, /*chosenSeed=*/sample);
    return &pretended;
  });
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
  auto leave = llvm::make_scope_exit([&] { draft.leaveDevice(); }); // the sampler goes
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
  // All that the draft does, one after the other.
  Expected<std::vector<KernelLaunch>> ofDraft = (*onDevice)->launches(shape.batch, guesses);
  Expected<std::vector<KernelLaunch>> afterwork = (*onDevice)->afterwork(shape.batch);
  if (!ofDraft || !afterwork)
    return llvm::joinErrors(ofDraft.takeError(), afterwork.takeError());
  llvm::append_range(*ofDraft, std::move(*afterwork));
  if (Error error = timeLaunches(std::move(ofDraft)).moveInto(times.draft))
    return error;
  if (Error error = timeLaunches((*onDevice)->checkLaunches(shape.batch)).moveInto(times.check))
    return error;
  return times;
}

} // namespace kiln
