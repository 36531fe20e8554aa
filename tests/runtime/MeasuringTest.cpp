// What a benchmark tells while it runs is what it reports in the end.
#include "runtime/RuntimeTest.h"

#include "runtime/measure/GenerationBenchmark.h"

namespace kiln {
namespace {

class MeasuringTest : public RuntimeTest {
protected:
  MeasuringTest() : executor(unwrap(open(weights, 1))) {
    options.samples = 3;
    options.onSample = [&](StringRef what, double seconds) { samples[what.str()].push_back(seconds); };
  }

  std::unique_ptr<Executor> executor;
  BenchmarkOptions options;
  std::map<std::string, std::vector<double>> samples; ///< by name, of all runs of a sample together
};

TEST_F(MeasuringTest, EverySampleOfACallIsTold) {
  Measurement measured = unwrap(measureCall(*executor, {Entry::Decode, 1, 4}, options));
  ASSERT_EQ(measured.seconds.size(), 3u);
  ASSERT_EQ(samples.size(), 1u);
  const std::vector<double> &told = samples.find("decode B=1 position=4")->second;
  ASSERT_EQ(told.size(), 3u);
  // The number of runs in a sample depends on the device.
  double runs = executor->device().isTimed() ? static_cast<double>(options.runsPerSample) : 1;
  for (auto [all, one] : llvm::zip(told, measured.seconds))
    EXPECT_DOUBLE_EQ(all, one * runs);
}

TEST_F(MeasuringTest, ATokenOfGeneratedTextIsDecodedAndChosen) {
  const CallShape shape{Entry::Generate, 1, 4};
  Measurement measured = unwrap(measureGeneration(*executor, shape, options));
  EXPECT_EQ(measured.seconds.size(), 3u);
  EXPECT_EQ(samples.find("generate B=1 position=4")->second.size(), 3u);
  const Measurement decode = unwrap(countCall(executor->plan(), {Entry::Decode, 1, 4}));
  const Measurement counted = unwrap(countGeneration(executor->plan(), shape));
  EXPECT_GT(counted.launches, decode.launches);
  EXPECT_EQ(measured.launches, counted.launches);
  EXPECT_EQ(measured.cost.bytes, counted.cost.bytes);
}

TEST_F(MeasuringTest, GeneratedTokensMustFitIntoTheContext) {
  const int64_t context = executor->plan().model.context;
  EXPECT_TRUE(bool(measureGeneration(*executor, {Entry::Generate, 1, context - 2}, options)));
  for (int64_t length : {int64_t(0), context - 1}) {
    std::string message =
        llvm::toString(measureGeneration(*executor, {Entry::Generate, 1, length}, options).takeError());
    EXPECT_NE(message.find("expected a position from 1 to " + std::to_string(context - 2)), std::string::npos)
        << message;
  }
}

TEST_F(MeasuringTest, EverySampleOfAKernelIsTold) {
  std::map<std::string, std::vector<double>> reported;
  for (const Measurement &kernel : unwrap(measureKernels(*executor, {Entry::Decode, 1, 4}, options)))
    reported[kernel.what] = kernel.seconds;
  EXPECT_GT(reported.size(), 1u);
  EXPECT_EQ(samples, reported);
}

/// What a run takes decides how many of them a warm-up has.
TEST_F(MeasuringTest, AWarmUpLastsSoManySeconds) {
  options.runsPerSample = 2;
  options.warmUpSeconds = 1.1;
  options.agree = [](double) { return 0.25; };
  const CallShape shape{Entry::Decode, 1, 4};
  unwrap(measureCall(*executor, shape, options));
  // One says how long it takes.
  EXPECT_EQ(device->counts.runs, 1 + 5 + 3 * 2);
  const int before = device->counts.runs;
  const size_t kernels = unwrap(measureKernels(*executor, shape, options)).size();
  EXPECT_EQ(device->counts.runs - before, static_cast<int>(1 + kernels * (1 + 5 + 3)));
}

TEST_F(MeasuringTest, ObserversAreToldEachStepWithItsTime) {
  std::vector<size_t> steps;
  auto onCall = [](const Executor::Call &) { return Error::success(); };
  auto onStep = [&](const PlanFunction &function, size_t step, double seconds) {
    EXPECT_EQ(function.name, "prefill");
    EXPECT_GE(seconds, 0);
    steps.push_back(step);
    return Error::success();
  };
  std::vector<float> expected = prefill(*executor, 1, 8);
  executor->setObserver({onCall, onStep});
  EXPECT_EQ(prefill(*executor, 1, 8), expected);
  EXPECT_EQ(steps.size(), executor->plan().function(Entry::Prefill).steps.size());
  EXPECT_TRUE(llvm::is_sorted(steps));
}

/// The layers of @decode in one kernel.
class PersistentMeasuringTest : public RuntimeTest {
protected:
  PersistentMeasuringTest() : RuntimeTest(/*width=*/128, "bf16", /*batch=*/1, /*draftTokens=*/0, "persistent") {}
};

TEST_F(PersistentMeasuringTest, PhasesShareTheTimeOfTheirKernel) {
  auto executor = unwrap(open(weights, 1));
  const CallShape shape{Entry::Decode, 1, 4};
  std::vector<Measurement> kernels = unwrap(measureKernels(*executor, shape, {.samples = 3}));
  auto layers = llvm::find_if(kernels, [](const Measurement &m) { return !m.phases.empty(); });
  ASSERT_NE(layers, kernels.end());
  const PlanKernel *kernel = executor->plan().findKernel(layers->what);
  EXPECT_EQ(kernel->family, "decode_layers");
  ASSERT_EQ(layers->phases.size(), kernel->phases.size());
  double all = 0;
  for (auto [phase, name] : llvm::zip(layers->phases, kernel->phases)) {
    EXPECT_EQ(phase.name, name);
    EXPECT_GT(phase.share, 0) << name;
    all += phase.share;
  }
  EXPECT_NEAR(all, 1, 1e-9);
  // The other kernel has none, and neither have kernels that are only counted.
  for (const Measurement &other : unwrap(countKernels(executor->plan(), shape)))
    EXPECT_TRUE(other.phases.empty());
}

TEST_F(PersistentMeasuringTest, MeasuringPhasesLeavesResultsAsTheyAre) {
  auto executor = unwrap(open(weights, 1));
  auto logits = [&] {
    Ids id = {7}, position = {3};
    Executor::Call call = executor->call(Entry::Decode, 1);
    call.arguments = {{"tokens", id}, {"positions", position}};
    expectSuccess(executor->enqueue(call));
    std::vector<float> result(101);
    expectSuccess(executor->download("logits", 0, result));
    return result;
  };
  const std::vector<float> before = logits();
  unwrap(measureKernels(*executor, {Entry::Decode, 1, 3}, {.samples = 3}));
  EXPECT_EQ(logits(), before);
}

} // namespace
} // namespace kiln
