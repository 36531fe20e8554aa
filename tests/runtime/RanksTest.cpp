// One model that two devices share.

#include "runtime/RuntimeTest.h"

#include "runtime/generation/ranks/RankedModel.h"

namespace kiln {
namespace {

class RanksTest : public RuntimeTest {
protected:
  explicit RanksTest(StringRef dtype = "f32")
      : RuntimeTest(/*width=*/64, dtype, maxBatch, /*draftTokens=*/0, "graph", context, /*ranks=*/2),
        dtype(dtype.str()) {
    entries = {Entry::Prefill, Entry::Decode, Entry::Score};
  }
  void SetUp() override {
    if (testDeviceCount() < 2)
      GTEST_SKIP() << "there is one device";
    ownSecond = unwrap(openTestDevice(1));
    second = std::make_unique<CountingDevice>(*ownSecond);
    expectSuccess(device->makeCurrent());
  }

  Expected<std::vector<std::unique_ptr<Executor>>> openOn(ArrayRef<Device *> devices) {
    return Executor::createRanks(devices, unwrap(readPlan(planDirectory())), {planDirectory(), ""}, weights,
                                 {4, positions, entries});
  }

  /// Of some prompts, by a model on both devices.
  std::vector<Ids> tokensOf(LanguageModel &model, bool withLogits) {
    std::vector<Ids> prompts;
    for (int32_t i = 0; i < 3; ++i)
      for (int32_t k = 0; k < 2 + 3 * i; ++k)
        (k == 0 ? prompts.emplace_back() : prompts.back()).push_back((i * 31 + k * 13) % 101);
    GenerateOptions options;
    options.maxNewTokens = 9;
    options.sampling.seed = 3;
    options.keepLogits = withLogits;
    std::vector<Ids> tokens;
    for (Generation &generation : unwrap(generate({&model}, nullptr, prompts, options)))
      tokens.push_back(std::move(generation.newTokens));
    return tokens;
  }

  std::string dtype;
  std::unique_ptr<Device> ownSecond;
  std::unique_ptr<CountingDevice> second;
};

struct RanksTest16 : RanksTest {
  RanksTest16() : RanksTest("bf16") {}
};

/// The tokens of the same weights on one device.
class OneDevice : public RuntimeTest {
public:
  OneDevice() : RuntimeTest(/*width=*/64, "f32", maxBatch) {}
  void TestBody() override {}
  using RuntimeTest::open;
  using RuntimeTest::weights;
};

TEST_F(RanksTest, TokensAreThoseOfOneDevice) {
  OneDevice one;
  auto alone = unwrap(one.open(one.weights, 4));
  PlanModel whole(*alone);
  std::vector<Ids> expected = tokensOf(whole, false);
  auto executors = unwrap(openOn({device.get(), second.get()}));
  auto model = unwrap(RankedModel::create({executors[0].get(), executors[1].get()}));
  // Chosen on the devices, and on the host from logits.
  for (bool withLogits : {false, true})
    EXPECT_EQ(tokensOf(*model, withLogits), expected) << withLogits;
}

TEST_F(RanksTest16, TwoRunsHaveTheSameBits) {
  auto executors = unwrap(openOn({device.get(), second.get()}));
  auto model = unwrap(RankedModel::create({executors[0].get(), executors[1].get()}));
  auto logitsOf = [&] {
    std::vector<std::vector<float>> logits(2);
    expectSuccess(model->prefill({Ids{1, 2, 3, 4, 5}, Ids{6}}, logits));
    expectSuccess(model->decode({7, 8}, logits));
    return logits;
  };
  auto first = logitsOf();
  EXPECT_EQ(logitsOf(), first);
  // All ranks have them.
  std::vector<std::vector<float>> ofRank(2, std::vector<float>(202));
  for (size_t rank : {0, 1}) {
    expectSuccess(executors[rank]->device().makeCurrent());
    expectSuccess(executors[rank]->download(executors[rank]->plan().entries.decode->logits, 0, ofRank[rank]));
  }
  EXPECT_EQ(ofRank[0], ofRank[1]);
}

TEST_F(RanksTest, AnotherNumberOfDevicesIsAnError) {
  EXPECT_EQ(messageOf(openOn(device.get()).takeError()),
            "error: the plan is for 2 GPUs, its ranks; expected as many devices, got 1\n");
  auto one = Executor::create(*device, unwrap(readPlan(planDirectory())), {planDirectory(), ""}, weights,
                              {4, positions, entries});
  EXPECT_EQ(messageOf(one.takeError()), "error: the plan is for 2 GPUs, its ranks; expected as many devices, got 1\n");
}

TEST_F(RanksTest, ARankThatFailsEndsTheOther) {
  if (testDeviceName() != "emulate")
    GTEST_SKIP() << "the other GPU could not be used any more";
  auto executors = unwrap(openOn({device.get(), second.get()}));
  auto model = unwrap(RankedModel::create({executors[0].get(), executors[1].get()}));
  int runs = 0;
  second->onRun = [&] { return ++runs == 3 ? makeError("the second device is gone") : Error::success(); };
  std::vector<std::vector<float>> logits(1);
  expectSuccess(model->prefill({Ids{1, 2, 3}}, logits)); // while weights are loaded, without a graph
  Error error = Error::success();
  for (int32_t token = 0; token < 10 && !error; ++token)
    error = model->decode({token}, logits);
  EXPECT_EQ(messageOf(std::move(error)), "error: the second device is gone\n");
  // From now on every call fails at once.
  EXPECT_EQ(messageOf(model->decode({1}, logits)), "error: the second device is gone\n");
}

} // namespace
} // namespace kiln
