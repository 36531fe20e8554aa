// Weights while they are uploaded to the device.

#include "runtime/RuntimeTest.h"

#include <atomic>
#include <thread>

namespace kiln {
namespace {

using LoadingTest = RuntimeTest;

/// Weights with some missing.
class Incomplete : public WeightSource {
public:
  Incomplete(const WeightSource &source, StringRef missing) : source(source), missing(missing) {}
  bool has(StringRef name) const override { return name != missing; }
  Expected<TensorView> tensor(StringRef name, ArrayRef<int64_t> shape) const override {
    if (!has(name))
      return makeError("tensor '" + name + "': expected one, got none");
    return source.tensor(name, shape);
  }

private:
  const WeightSource &source;
  StringRef missing;
};

TEST_F(LoadingTest, EarlierLayersComputeWhileLaterOnesAreUploaded) {
  // The last weight is held back until the first step has run.
  std::atomic<int> uploads = 0;
  size_t weightCount = unwrap(readPlan(planDirectory())).weights.size();
  std::atomic<bool> mayEnd = false;
  device->onUploadBeside = [&]() -> Error {
    if (++uploads == static_cast<int>(weightCount))
      while (!mayEnd)
        std::this_thread::yield();
    return Error::success();
  };
  auto executor = unwrap(open(weights, 1));
  std::thread release([&] {
    while (!device->hasLaunched)
      std::this_thread::yield();
    mayEnd = true;
  });
  Ids tokens(8, 1), lengths = {8};
  Executor::Call call = executor->call(Entry::Prefill, 1, 8);
  call.arguments = {{"tokens", tokens}, {"lengths", lengths}};
  expectSuccess(executor->enqueue(call));
  release.join();
  std::vector<float> overlapped(101), plain(101);
  StringRef result = executor->plan().entries.logitsOf(Entry::Prefill);
  expectSuccess(executor->download(result, 0, overlapped));
  // Once more, with everything there.
  expectSuccess(executor->enqueue(call));
  expectSuccess(executor->download(result, 0, plain));
  EXPECT_EQ(overlapped, plain);
}

TEST_F(LoadingTest, AMissingWeightIsAnErrorOfTheFirstCall) {
  Incomplete incomplete(weights, "h.1.mlp.c_fc.weight");
  auto executor = unwrap(open(incomplete, 1));
  PlanModel model(*executor);
  GenerateOptions options;
  options.maxNewTokens = 2;
  EXPECT_EQ(messageOf(generate(model, nullptr, {Ids{1, 2}}, options)),
            "error: tensor 'h.1.mlp.c_fc.weight': expected one, got none\n");
}

TEST_F(LoadingTest, WeightsThatComeFirstAreThereBeforeAnyCall) {
  Incomplete incomplete(weights, "h.1.mlp.c_fc.weight");
  Plan plan = unwrap(readPlan(planDirectory()));
  plan.weightsFirst = true;
  EXPECT_NE(messageOf(open(incomplete, 1, plan).takeError()), "");
  EXPECT_TRUE(unwrap(open(weights, 1, plan)));
}

TEST_F(LoadingTest, AnExecutorThatIsNotUsedEndsItsUpload) {
  auto executor = unwrap(open(weights, 1));
  executor.reset();
  EXPECT_EQ(device->counts.allocations, device->counts.frees);
}

TEST_F(LoadingTest, TooLittleMemoryIsRefusedBeforeAnythingIsAllocated) {
  device->memoryLeft = 1000;
  std::string message = messageOf(open(weights, 8));
  EXPECT_TRUE(StringRef(message).starts_with("error: out of memory on test: needed are ")) << message;
  for (StringRef part : {"(weights ", "caches of 8 sequences ", "free are 0.0 MB", "--max-batch", "--dtype"})
    EXPECT_TRUE(StringRef(message).contains(part)) << message;
  EXPECT_EQ(device->counts.allocations, 0);
}

TEST_F(LoadingTest, MemoryThatSomebodyElseTookIsAnErrorAndAllElseIsFreed) {
  for (StringRef what : {"weight wte", "arena"}) {
    device->counts = {};
    device->refused = what;
    EXPECT_EQ(messageOf(open(weights, 8)), "error: out of memory on test: " + what.str() + "\n");
    EXPECT_EQ(device->counts.allocations, device->counts.frees);
  }
}

TEST_F(LoadingTest, DimsPastThePlansBoundsAreRefused) {
  EXPECT_EQ(messageOf(open(weights, 9)),
            "error: the plan runs B from 1 to 8, got 9; compile with a larger --max-batch\n");
  auto executor = unwrap(open(weights, 2));
  EXPECT_EQ(messageOf(executor->enqueue(executor->call(Entry::Prefill, 1, 25))),
            "error: @prefill: expected T from 1 to 24, got 25\n");
  EXPECT_EQ(messageOf(executor->enqueue(executor->call(Entry::Prefill, 3, 8))),
            "error: @prefill: expected B from 1 to 2, got 3\n");
}

TEST_F(LoadingTest, EntriesThatWereNotAskedForAreRefused) {
  auto executor = unwrap(open(weights, 1));
  EXPECT_EQ(messageOf(executor->enqueue(executor->call(Entry::Score, 1, 8))),
            "error: @score was not asked for when the plan was loaded\n");
  Plan plan = unwrap(readPlan(planDirectory()));
  plan.entries.decode.reset();
  EXPECT_EQ(messageOf(open(weights, 1, plan).takeError()), "error: the plan has no entry 'decode'\n");
  plan.entries = {};
  EXPECT_EQ(messageOf(open(weights, 1, plan).takeError()),
            "error: the plan is of no language model: it has no entries\n");
}

} // namespace
} // namespace kiln
