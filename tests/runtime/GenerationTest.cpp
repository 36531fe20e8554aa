// Tokens chosen on the device, some steps ahead of the host.

#include "runtime/RuntimeTest.h"

namespace kiln {
namespace {

const std::vector<Ids> prompts = {{1, 2, 3}, {4}, {5, 6, 7, 8, 9, 10, 11, 12, 13}, {14, 15}, {1, 2, 3}};

class GenerationTest : public RuntimeTest {
protected:
  /// The new tokens of each prompt, in batches of `batch`. If logits are kept, the host chooses.
  std::vector<Ids> tokensOf(ArrayRef<Ids> all, GenerateOptions options, int64_t batch, int64_t ahead,
                            bool onHost = false) {
    device->ahead = ahead;
    options.keepLogits = onHost;
    auto executor = unwrap(open(weights, batch));
    PlanModel model(*executor);
    std::vector<Ids> tokens;
    for (const Generation &generation : unwrap(generate(model, nullptr, all, options)))
      tokens.push_back(generation.newTokens);
    return tokens;
  }

  static GenerateOptions greedy(int64_t maxNewTokens) {
    GenerateOptions options;
    options.maxNewTokens = maxNewTokens;
    options.sampling.greedy = true;
    return options;
  }
  static GenerateOptions sampled(int64_t maxNewTokens) {
    GenerateOptions options;
    options.maxNewTokens = maxNewTokens;
    options.sampling = {.temperature = 1.3, .topK = 40, .topP = 0.9, .seed = 17};
    return options;
  }
};

TEST_F(GenerationTest, UnequalPromptsInABatchAreAsIfAlone) {
  std::vector<Ids> alone;
  for (const Ids &prompt : prompts)
    alone.push_back(tokensOf({prompt}, greedy(9), 1, 1)[0]);
  for (int64_t ahead : {1, 4})
    EXPECT_EQ(tokensOf(prompts, greedy(9), 5, ahead), alone) << ahead;
  // Two batches: the second one begins with the state that the first has left.
  EXPECT_EQ(tokensOf(prompts, greedy(9), 3, 2), alone);
}

TEST_F(GenerationTest, TheNextRequestTakesTheRowOfOneThatHasEnded) {
  std::vector<GenerationRequest> requests;
  for (int32_t i = 0; i < 30; ++i) {
    GenerationRequest &request = requests.emplace_back();
    for (int32_t k = 0; k < 1 + i * 7 % 19; ++k)
      request.prompt.push_back((i * 31 + k * 13) % 101);
    request.options = sampled(i * 5 % 12);
    request.options.sampling.seed = static_cast<uint64_t>(i);
    if (i % 3 == 0)
      request.options.sampling = {.greedy = true};
    if (i % 4 == 0)
      request.options.eosIds = {1, 5, 50, 60, 70};
    request.options.overflow = i % 2 == 0 ? OverflowPolicy::Stop : OverflowPolicy::Slide;
  }
  auto tokensOf = [&](ArrayRef<GenerationRequest> all, size_t rows, const JobOptions &options = {}) {
    auto executor = unwrap(open(weights, maxBatch));
    PlanModel model(*executor);
    std::vector<Ids> tokens(all.size());
    expectSuccess(generateEach(model, nullptr, all, rows, options, [&](size_t request, Generation result) {
      tokens[request] = result.newTokens;
      return Error::success();
    }));
    return tokens;
  };
  std::vector<Ids> alone;
  for (const GenerationRequest &request : requests)
    alone.push_back(tokensOf(request, 1)[0]);
  JobOptions onHost;
  onHost.keepLogits = true;
  EXPECT_EQ(tokensOf(requests, 4, onHost), alone);
  for (int64_t ahead : {1, 2, 5})
    for (size_t rows : {1, 3, 8}) {
      device->ahead = ahead;
      CountingDevice::Counts before = device->counts;
      EXPECT_EQ(tokensOf(requests, rows), alone) << ahead << ' ' << rows;
      EXPECT_EQ(device->counts.downloads, before.downloads) << "the host reads tokens from its own memory";
    }
}

TEST_F(GenerationTest, StartingARowLeavesTheDeviceAhead) {
  device->ahead = 4;
  auto executor = unwrap(open(weights, 2));
  PlanModel model(*executor);
  auto stream = model.openStream({.rows = 2});
  const RowStart first = {.row = 0, .tokens = prompts[0]}, second = {.row = 1, .tokens = prompts[2]};
  expectSuccess(stream->start({first, second}));
  BitVector active(2, true);
  Ids tokens(2);
  expectSuccess(stream->next(active, tokens));
  CountingDevice::Counts before = device->counts;
  expectSuccess(stream->start({{.row = 1, .tokens = prompts[3]}}));
  EXPECT_EQ(device->counts.waits, before.waits);
  EXPECT_EQ(device->counts.runs, before.runs);
  // Each step is one more graph, and the started row's token comes with that of the last step before it.
  for (int step = 0; step < 5; ++step) {
    expectSuccess(stream->next(active, tokens));
    EXPECT_NE(tokens[0], idleRow);
    EXPECT_EQ(tokens[1] == idleRow, step < 2) << step;
    EXPECT_EQ(device->counts.runs, before.runs + step + 1);
  }
}

TEST_F(GenerationTest, AStartBesideOtherRowsIsAGraphOfItsShapeThatIsMovedToTheRow) {
  auto executor = unwrap(open(weights, 3));
  PlanModel model(*executor);
  auto stream = model.openStream({.rows = 3});
  expectSuccess(stream->start(
      {{.row = 0, .tokens = prompts[0]}, {.row = 1, .tokens = prompts[0]}, {.row = 2, .tokens = prompts[0]}}));
  auto startRow = [&](size_t row) {
    CountingDevice::Counts before = device->counts;
    expectSuccess(stream->start({{.row = row, .tokens = prompts[0]}}));
    return std::array{device->counts.launches - before.launches, device->counts.graphs - before.graphs,
                      device->counts.changes - before.changes, device->counts.runs - before.runs};
  };
  std::array first = startRow(1);
  EXPECT_GT(first[0], 2) << "a shape that may not come again is launched kernel by kernel";
  EXPECT_EQ(first[1], 0);
  // One launch is that of sampling. In each of two layers, one kernel writes the cache and one reads it.
  EXPECT_EQ(startRow(2), (std::array{1, 1, 0, 1}));
  EXPECT_EQ(startRow(1), (std::array{1, 0, 4, 1}));
  EXPECT_EQ(startRow(1), (std::array{1, 0, 0, 1}));
}

/// The launches of a library cannot be changed in a graph.
TEST_F(GenerationTest, AGraphWithLibraryStepsOnTheCacheIsMadeAnewForAnotherRow) {
  compile("attention=cublas");
  auto executor = unwrap(open(weights, 2));
  PlanModel model(*executor);
  auto stream = model.openStream({.rows = 2});
  expectSuccess(stream->start({{.row = 0, .tokens = prompts[0]}, {.row = 1, .tokens = prompts[0]}}));
  for (size_t row : {1, 1, 0, 1}) {
    CountingDevice::Counts before = device->counts;
    expectSuccess(stream->start({{.row = row, .tokens = prompts[0]}}));
    EXPECT_EQ(device->counts.changes, before.changes);
  }
}

TEST_F(GenerationTest, DeviceAndHostChooseTheSame) {
  for (int64_t ahead : {1, 3})
    EXPECT_EQ(tokensOf(prompts, sampled(10), 5, ahead), tokensOf(prompts, sampled(10), 5, 1, /*onHost=*/true));
}

TEST_F(GenerationTest, RowsThatEndLeaveTheBatchToTheOthers) {
  GenerateOptions options = sampled(12);
  std::vector<Ids> whole = tokensOf(prompts, options, 5, 1, /*onHost=*/true);
  // The device knows eight of the ids that end a row, the host knows all. In both cases rows end one by one.
  for (int unknown : {0, 8}) {
    options.eosIds = std::vector<int32_t>(unknown, 0);
    for (size_t row = 1; row < 5; ++row)
      options.eosIds.push_back(whole[row][2 * row]);
    std::vector<Ids> wanted = tokensOf(prompts, options, 5, 1, /*onHost=*/true);
    EXPECT_NE(wanted, whole);
    for (int64_t ahead : {1, 4}) {
      device->counts = {};
      EXPECT_EQ(tokensOf(prompts, options, 5, ahead), wanted) << unknown << ' ' << ahead;
      EXPECT_GT(device->counts.copies, 0) << "no row was moved";
    }
  }
}

TEST_F(GenerationTest, AFullContextSlides) {
  GenerateOptions options = sampled(28);
  options.overflow = OverflowPolicy::Slide;
  std::vector<Ids> wanted = tokensOf(prompts, options, 5, 1, /*onHost=*/true);
  for (int64_t ahead : {1, 4})
    EXPECT_EQ(tokensOf(prompts, options, 5, ahead), wanted) << ahead;
  options.overflow = OverflowPolicy::Stop;
  wanted = tokensOf(prompts, options, 5, 1, /*onHost=*/true);
  EXPECT_EQ(tokensOf(prompts, options, 5, 4), wanted);
  EXPECT_EQ(wanted[1].size(), static_cast<size_t>(context) - 1);
}

TEST_F(GenerationTest, APromptMayFillTheContext) {
  Ids full(context);
  for (int32_t i = 0; i < context; ++i)
    full[i] = i * 3;
  GenerateOptions options = sampled(3);
  options.overflow = OverflowPolicy::Slide;
  EXPECT_EQ(tokensOf({full, {1}}, options, 2, 3), tokensOf({full, {1}}, options, 2, 1, /*onHost=*/true));
}

TEST_F(GenerationTest, AStepIsOneGraphAndNothingElse) {
  device->ahead = 4;
  auto executor = unwrap(open(weights, 4));
  PlanModel model(*executor);
  auto stream = model.openStream({.rows = 3});
  std::vector<RowStart> starts;
  for (size_t row = 0; row < 3; ++row)
    starts.push_back({.row = row, .tokens = prompts[row], .sampling = {.seed = 3}, .sequence = row, .remaining = 10});
  expectSuccess(stream->start(starts));
  BitVector active(3, true);
  Ids tokens(3);
  CountingDevice::Counts before = device->counts;
  for (int step = 0; step < 10; ++step)
    expectSuccess(stream->next(active, tokens));
  // Three steps were in flight before the first token was taken; no row takes more than ten.
  CountingDevice::Counts after = before;
  after.runs += 10 - 4;
  EXPECT_EQ(device->counts.runs, after.runs);
  EXPECT_EQ(device->counts, after);
}

TEST_F(GenerationTest, StepByStepThereAreNoGraphs) {
  std::vector<Ids> expected = tokensOf({prompts[0]}, greedy(4), 1, 1);
  Plan plan = unwrap(readPlan(planDirectory()));
  plan.stepByStep = true;
  auto executor = unwrap(open(weights, 1, std::move(plan)));
  PlanModel model(*executor);
  CountingDevice::Counts before = device->counts;
  EXPECT_EQ(unwrap(generate(model, nullptr, prompts[0], greedy(4)))[0].newTokens, expected[0]);
  EXPECT_EQ(device->counts.graphs, before.graphs);
  EXPECT_EQ(device->counts.runs, before.runs);
  EXPECT_GT(device->counts.launches, before.launches);
}

TEST_F(GenerationTest, ALaterStreamFindsItsGraphs) {
  auto executor = unwrap(open(weights, 2));
  PlanModel model(*executor);
  ArrayRef<Ids> two = ArrayRef(prompts).take_front(2);
  auto first = unwrap(generate(model, nullptr, two, sampled(4)));
  CountingDevice::Counts before = device->counts;
  auto second = unwrap(generate(model, nullptr, two, sampled(4)));
  for (size_t i = 0; i < 2; ++i)
    EXPECT_EQ(first[i].newTokens, second[i].newTokens);
  EXPECT_EQ(device->counts.allocations, before.allocations);
  // The first prefill ran step by step, while weights were being uploaded.
  EXPECT_LE(device->counts.graphs, before.graphs + 1);
}

TEST(BucketTest, FewShapesServeAll) {
  EXPECT_EQ(prefillBucket(1, 1024), 8);
  EXPECT_EQ(prefillBucket(9, 1024), 16);
  EXPECT_EQ(prefillBucket(128, 1024), 128);
  EXPECT_EQ(prefillBucket(129, 1024), 256);
  EXPECT_EQ(prefillBucket(900, 1024), 1024);
  EXPECT_EQ(prefillBucket(1000, 1010), 1010);
  EXPECT_EQ(prefillBucket(3, 5), 5);
  EXPECT_EQ(decodeBucket(1, 64), 1);
  EXPECT_EQ(decodeBucket(5, 64), 8);
  EXPECT_EQ(decodeBucket(5, 6), 6);
}

} // namespace
} // namespace kiln
