// One model on two devices of the same kind. On a machine with one GPU, both are that GPU.

#include "runtime/RuntimeTest.h"

#include "runtime/generation/scoring/ReplicatedScorer.h"

#include <atomic>
#include <chrono>
#include <thread>

namespace kiln {
namespace {

/// Weights that count how often a tensor is read.
class Counted : public WeightSource {
public:
  explicit Counted(const WeightSource &source) : source(source) {}
  bool has(StringRef name) const override { return source.has(name); }
  Expected<TensorView> tensor(StringRef name, ArrayRef<int64_t> shape) const override {
    ++reads;
    return source.tensor(name, shape);
  }

  mutable std::atomic<int> reads = 0;

private:
  const WeightSource &source;
};

class ReplicaTest : public RuntimeTest {
protected:
  ReplicaTest() { entries = {Entry::Prefill, Entry::Decode, Entry::Score}; }

  std::vector<std::unique_ptr<Executor>> openOn(ArrayRef<Device *> devices, const WeightSource &source) {
    return unwrap(Executor::createReplicas(devices, unwrap(readPlan(planDirectory())), {planDirectory(), ""}, source,
                                           {4, positions, entries}));
  }

  /// Makes the first device wait for a launch of the second one, of a kernel or a graph, ten seconds at most: a fast
  /// one could take all work before the other one's thread has started.
  void awaitLaunchOf(CountingDevice &second) {
    second.hasLaunched = false;
    device->onLaunch = device->onRun = [&second] {
      for (int tries = 0; tries < 10000 && !second.hasLaunched; ++tries)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      return Error::success();
    };
  }

  std::unique_ptr<Device> other = unwrap(openTestDevice());
};

std::vector<GenerationRequest> someRequests(int32_t count) {
  std::vector<GenerationRequest> requests;
  for (int32_t i = 0; i < count; ++i) {
    GenerationRequest &request = requests.emplace_back();
    for (int32_t k = 0; k < 1 + i * 5 % 11; ++k)
      request.prompt.push_back((i * 31 + k * 13) % 101);
    request.options.maxNewTokens = i * 3 % 9;
    request.options.sampling.seed = static_cast<uint64_t>(i);
  }
  return requests;
}

/// Constants are of a device, too.
TEST_F(ReplicaTest, OneThreadMayUseBothDevices) {
  compile("parameters=constant");
  CountingDevice second(*other);
  auto executors = openOn({device.get(), &second}, weights);
  for (const auto &executor : executors)
    expectSuccess(executor->finishLoading());
  const std::vector<float> logits = prefill(*executors[0], 2, 3);
  EXPECT_EQ(prefill(*executors[1], 2, 3), logits);
  EXPECT_EQ(prefill(*executors[0], 2, 3), logits);
}

TEST_F(ReplicaTest, RequestsGoToBothDevicesAndGiveTheTokensOfOne) {
  std::vector<GenerationRequest> requests = someRequests(40);
  auto tokensOf = [&](ArrayRef<std::unique_ptr<Executor>> executors) {
    std::vector<std::unique_ptr<PlanModel>> owned;
    std::vector<LanguageModel *> models;
    for (const auto &executor : executors)
      models.push_back(owned.emplace_back(std::make_unique<PlanModel>(*executor)).get());
    std::vector<Ids> tokens(requests.size());
    std::vector<int> results(requests.size());
    expectSuccess(generateEach(models, nullptr, requests, 3, {}, [&](size_t request, Generation result) {
      tokens[request] = result.newTokens;
      ++results[request];
      return Error::success();
    }));
    EXPECT_EQ(results, std::vector<int>(requests.size(), 1));
    return tokens;
  };
  CountingDevice second(*other);
  Counted once(weights), twice(weights);
  std::vector<Ids> alone = tokensOf(openOn(device.get(), once));
  auto executors = openOn({device.get(), &second}, twice);
  awaitLaunchOf(second);
  EXPECT_EQ(tokensOf(executors), alone);
  EXPECT_EQ(twice.reads, once.reads) << "weights are read once for all devices";
  EXPECT_GT(second.counts.runs, 0);
}

TEST_F(ReplicaTest, WindowsGoToBothDevicesAndGiveTheScoresOfOne) {
  std::vector<Ids> texts;
  std::vector<ScoreWindow> windows;
  for (int32_t i = 0; i < 7; ++i) {
    Ids &text = texts.emplace_back();
    for (int32_t k = 0; k < 3 + i * 5 % 13; ++k)
      text.push_back((i * 17 + k * 29) % 101);
  }
  for (ArrayRef<int32_t> text : texts)
    windows.push_back({text.drop_back(), text.drop_front(), text.size() / 3});
  CountingDevice second(*other);
  auto executors = openOn({device.get(), &second}, weights);
  PlanModel a(*executors[0]), b(*executors[1]);
  ReplicatedScorer both({&a, &b});
  EXPECT_EQ(both.maxBatch(), 2 * 8 * 4);
  auto lossesOf = [&](Scorer &scorer, ArrayRef<ScoreWindow> some) {
    std::vector<double> losses;
    for (ArrayRef<TokenScore> scores : unwrap(scorer.score(some)))
      for (const TokenScore &score : scores)
        losses.push_back(score.nll);
    return losses;
  };
  std::vector<double> alone;
  for (const ScoreWindow &window : windows)
    llvm::append_range(alone, lossesOf(a, window));
  CountingDevice::Counts before = second.counts;
  awaitLaunchOf(second);
  EXPECT_EQ(lossesOf(both, windows), alone);
  EXPECT_GT(second.counts.launches + second.counts.runs, before.launches + before.runs);
  EXPECT_EQ(lossesOf(both, windows.front()), lossesOf(a, windows.front()));
  EXPECT_TRUE(lossesOf(both, {}).empty());
}

TEST_F(ReplicaTest, AnErrorOfOneDeviceEndsTheOther) {
  CountingDevice second(*other);
  auto executors = openOn({device.get(), &second}, weights);
  PlanModel a(*executors[0]), b(*executors[1]);
  std::vector<LanguageModel *> models = {&a, &b};
  std::vector<GenerationRequest> requests = someRequests(40);
  size_t results = 0;
  auto refuseTheThird = [&](size_t, Generation) -> Error {
    return ++results == 3 ? makeError("the disk is full") : Error::success();
  };
  EXPECT_EQ(messageOf(generateEach(models, nullptr, requests, 3, {}, refuseTheThird)), "error: the disk is full\n");
  EXPECT_LT(results, requests.size());
}

TEST_F(ReplicaTest, AMissingWeightIsAnErrorOnBothDevices) {
  struct Broken : WeightSource {
    bool has(StringRef) const override { return true; }
    Expected<TensorView> tensor(StringRef name, ArrayRef<int64_t>) const override { return makeError("no " + name); }
  } broken;
  CountingDevice second(*other);
  auto executors = openOn({device.get(), &second}, broken);
  for (auto &executor : executors)
    EXPECT_TRUE(StringRef(messageOf(executor->finishLoading())).starts_with("error: no "));
}

TEST_F(ReplicaTest, ExecutorsMayEndWhileWeightsAreUploaded) {
  std::atomic<bool> hasBegun = false;
  device->onUploadBeside = [&]() -> Error {
    hasBegun = true;
    return Error::success();
  };
  CountingDevice second(*other);
  auto executors = openOn({device.get(), &second}, weights);
  while (!hasBegun)
    std::this_thread::yield();
  executors.erase(executors.begin());
  // What is left has all weights, or says that it has not.
  std::string message = messageOf(executors.front()->finishLoading());
  EXPECT_TRUE(message.empty() || message == "error: the upload of weights was abandoned\n") << message;
}

} // namespace
} // namespace kiln
