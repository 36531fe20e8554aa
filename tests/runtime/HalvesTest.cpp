// Calls of a model that several devices share, as two halves of the batch side by side.

#include "runtime/RuntimeTest.h"

#include "runtime/generation/ranks/RankedModel.h"

namespace kiln {
namespace {

/// Keeps the launches of the graphs that it makes. `onBranch` may change those of a branch.
class WatchedDevice : public CountingDevice {
public:
  using CountingDevice::CountingDevice;

  struct Graph {
    std::vector<KernelLaunch> launches;
    GraphBranch beside;
  };
  std::vector<Graph> graphs;
  std::function<void(KernelLaunch &)> onBranch = [](KernelLaunch &) {};

  Expected<std::unique_ptr<DeviceGraph>> makeGraph(std::vector<KernelLaunch> launches, GraphBranch beside) override {
    for (KernelLaunch &launch : beside.launches)
      onBranch(launch);
    graphs.push_back({launches, beside});
    return CountingDevice::makeGraph(std::move(launches), std::move(beside));
  }

  /// The graphs with a branch.
  size_t halved() const {
    return llvm::count_if(graphs, [](const Graph &graph) { return !graph.beside.launches.empty(); });
  }
};

/// The tensor that both halves of a graph touch and one of them writes; empty: there is none.
std::string sharedBy(const WatchedDevice::Graph &graph) {
  for (const KernelLaunch &one : graph.launches)
    for (const KernelLaunch &other : graph.beside.launches)
      for (const LaunchTensor &tensor : one.tensors)
        for (const LaunchTensor &beside : other.tensors)
          if ((tensor.isWritten || beside.isWritten) && tensor.address < beside.address + beside.bytes &&
              beside.address < tensor.address + tensor.bytes)
            return tensor.name;
  return "";
}

class HalvesTest : public RuntimeTest {
protected:
  /// `batch`: the most sequences of the plan.
  explicit HalvesTest(size_t ranks = 2, StringRef dtype = "f32", int64_t batch = maxBatch)
      : RuntimeTest(/*width=*/64, dtype, batch, /*draftTokens=*/0, "graph", context, static_cast<int64_t>(ranks)),
        ranks(ranks) {
    entries = {Entry::Prefill, Entry::Decode, Entry::Score};
  }

  void SetUp() override {
    if (testDeviceCount() < static_cast<int>(ranks))
      GTEST_SKIP() << "there are fewer devices";
    for (size_t rank = 0; rank < ranks; ++rank) {
      owned.push_back(unwrap(openTestDevice(static_cast<int>(rank))));
      devices.push_back(std::make_unique<WatchedDevice>(*owned.back()));
    }
    expectSuccess(devices.front()->makeCurrent());
  }

  /// Of so many sequences, with calls of so many tokens or more as halves; 0: none.
  Expected<std::vector<std::unique_ptr<Executor>>> openRanks(int64_t halvedRows, int64_t batch = 5) {
    Plan plan = unwrap(readPlan(planDirectory()));
    plan.halvedRows = halvedRows;
    SmallVector<Device *, 4> all;
    for (auto &one : devices) {
      one->graphs.clear();
      all.push_back(one.get());
    }
    return Executor::createRanks(all, plan, {planDirectory(), ""}, weights, {batch, positions, entries});
  }

  static std::unique_ptr<RankedModel> modelOf(ArrayRef<std::unique_ptr<Executor>> executors) {
    std::vector<Executor *> all;
    for (const auto &executor : executors)
      all.push_back(executor.get());
    return unwrap(RankedModel::create(all));
  }

  /// Prompts of unequal lengths; the first rows have none.
  static std::vector<Ids> promptsFor(size_t rows, size_t without, int32_t seed) {
    std::vector<Ids> prompts(rows);
    for (size_t row = without; row < rows; ++row)
      for (size_t i = 0; i < 3 + (row * 5 + static_cast<size_t>(seed)) % 9; ++i)
        prompts[row].push_back(static_cast<int32_t>((row * 31 + i * 13 + static_cast<size_t>(seed) * 7) % 101));
    return prompts;
  }

  using Rows = std::vector<std::vector<float>>;

  /// All logits of calls with several numbers of prompts, each a few times, and of a token behind each prompt.
  std::vector<Rows> logitsOf(RankedModel &model) {
    std::vector<Rows> all;
    for (size_t rows : {5, 3, 2, 5})
      for (size_t without : {0, 1, 2}) {
        Rows logits(rows);
        // The same shape again, and with another first row: a graph is made, and changed.
        for (int32_t seed = 0; seed < 3; ++seed) {
          expectSuccess(model.prefill(promptsFor(rows, without, seed), logits));
          all.push_back(logits);
        }
        expectSuccess(model.decode(Ids(rows, 7), logits));
        all.push_back(logits);
      }
    return all;
  }

  std::vector<std::vector<TokenScore>> scoresOf(RankedModel &model) {
    std::vector<Ids> texts = promptsFor(5, 0, 4);
    std::vector<ScoreWindow> windows;
    for (const Ids &text : texts)
      windows.push_back({ArrayRef(text).drop_back(), ArrayRef(text).drop_front(), 1});
    unwrap(model.score(windows));
    return unwrap(model.score(windows));
  }

  void expectEqualBits() {
    std::vector<Rows> logits[2];
    std::vector<std::vector<TokenScore>> scores[2];
    for (bool inHalves : {false, true}) {
      auto executors = unwrap(openRanks(inHalves ? 16 : 0));
      auto model = modelOf(executors);
      logits[inHalves] = logitsOf(*model);
      scores[inHalves] = scoresOf(*model);
      for (auto &device : devices)
        EXPECT_EQ(device->halved() > 2, inHalves);
    }
    EXPECT_EQ(logits[true], logits[false]);
    ASSERT_EQ(scores[true].size(), scores[false].size());
    for (auto [own, expected] : llvm::zip(scores[true], scores[false]))
      for (auto [score, other] : llvm::zip_equal(own, expected)) {
        EXPECT_EQ(score.nll, other.nll);
        EXPECT_EQ(score.isBest, other.isBest);
      }
  }

  /// Evaluates three prompts as halves.
  void prefillThree(RankedModel &model, Rows &logits) {
    logits.resize(3);
    for (int i = 0; i < 2; ++i) // at first while weights are loaded, step by step
      expectSuccess(model.prefill(promptsFor(3, 0, 1), logits));
  }

  const size_t ranks;
  std::vector<std::unique_ptr<Device>> owned;
  std::vector<std::unique_ptr<WatchedDevice>> devices;
};

/// Products in tensor cores, which take turns, and sums of so many elements that ranks add up slices of them.
struct HalvesTest16 : HalvesTest {
  HalvesTest16() : HalvesTest(2, "bf16", /*batch=*/512) {}

  /// The logits of long prompts, twice: at first while weights are loaded, step by step.
  Rows logitsOfLongPrompts(RankedModel &model) {
    Rows logits(8);
    std::vector<Ids> prompts(8);
    for (auto [row, prompt] : llvm::enumerate(prompts))
      for (size_t i = 0; i < context - row % 3; ++i)
        prompt.push_back(static_cast<int32_t>((row * 31 + i * 13) % 101));
    for (int i = 0; i < 2; ++i)
      expectSuccess(model.prefill(prompts, logits));
    return logits;
  }
};
struct HalvesOfFourRanksTest : HalvesTest {
  HalvesOfFourRanksTest() : HalvesTest(4) {}
};

TEST_F(HalvesTest, BitsAreThoseOfTheWholeCall) { expectEqualBits(); }
TEST_F(HalvesTest16, BitsAreThoseOfTheWholeCall) { expectEqualBits(); }
TEST_F(HalvesOfFourRanksTest, BitsAreThoseOfTheWholeCall) { expectEqualBits(); }

TEST_F(HalvesTest16, LargeSumsHaveTheBitsOfTheWholeCall) {
  Rows logits[2];
  for (bool inHalves : {false, true}) {
    auto executors = unwrap(openRanks(inHalves ? 16 : 0, /*batch=*/8));
    logits[inHalves] = logitsOfLongPrompts(*modelOf(executors));
  }
  EXPECT_EQ(logits[true], logits[false]);
  const WatchedDevice::Graph &graph = devices[0]->graphs.back();
  auto isSliced = [](const KernelLaunch &launch) { return launch.step->inbox != 0 && launch.planned->halfBlocks != 0; };
  EXPECT_TRUE(llvm::any_of(graph.launches, isSliced));
  EXPECT_TRUE(llvm::any_of(graph.beside.launches, isSliced));
}

/// Between exchanges, the products of the halves take turns. The last layer has one, since it goes on with one row.
TEST_F(HalvesTest16, ProductsTakeTurns) {
  if (targetOf(*owned.front()) != "sm_90a")
    GTEST_SKIP() << "expected products that leave room";
  auto executors = unwrap(openRanks(16, /*batch=*/8));
  logitsOfLongPrompts(*modelOf(executors));
  const WatchedDevice::Graph &graph = devices[0]->graphs.back();
  const size_t count = graph.launches.size();
  auto nameOf = [&](size_t launch) {
    const auto &own = launch < count ? graph.launches[launch] : graph.beside.launches[launch - count];
    return (launch < count ? "1: " : "2: ") + StringRef(own.planned->kernel).split("__").first.str();
  };
  std::vector<std::pair<std::string, std::string>> order;
  for (auto [before, after] : graph.beside.order)
    order.emplace_back(nameOf(before), nameOf(after));
  using Pairs = std::vector<std::pair<std::string, std::string>>;
  EXPECT_EQ(order, (Pairs{{"1: matmul", "2: matmul_norm_bias_split_cache"},
                          {"2: matmul", "1: matmul_norm_bias_gelu"},
                          {"1: matmul", "2: matmul_norm_bias_gelu"},
                          {"2: matmul", "1: matmul_norm_bias_split_cache_last"},
                          {"1: matmul_norm_bias_split_cache_last", "2: matmul_norm_bias_split_cache_last"}}));
}

/// One that waits for weights launches step by step, others graphs.
TEST_F(HalvesTest, RanksNeedNotWaitForWeightsAlike) {
  Rows logits[2];
  for (bool isAhead : {false, true}) {
    auto executors = unwrap(openRanks(16));
    if (isAhead)
      expectSuccess(executors.front()->finishLoading());
    logits[isAhead].resize(3);
    expectSuccess(modelOf(executors)->prefill(promptsFor(3, 0, 1), logits[isAhead]));
    EXPECT_EQ(devices[0]->halved(), isAhead ? 1 : 0);
    EXPECT_EQ(devices[1]->halved(), 0);
  }
  EXPECT_EQ(logits[true], logits[false]);
}

TEST_F(HalvesTest, LargeCallsAreHalved) {
  auto executors = unwrap(openRanks(32));
  auto model = modelOf(executors);
  Rows logits(5);
  auto halvedBy = [&](size_t rows, size_t tokens) {
    const size_t before = devices[0]->halved();
    for (int i = 0; i < 2; ++i)
      expectSuccess(model->prefill(std::vector<Ids>(rows, Ids(tokens, 1)), MutableArrayRef(logits).take_front(rows)));
    return devices[0]->halved() > before;
  };
  EXPECT_FALSE(halvedBy(1, 24)); // one sequence has no halves
  EXPECT_FALSE(halvedBy(3, 8));
  EXPECT_TRUE(halvedBy(4, 8));
  EXPECT_FALSE(halvedBy(4, 8)); // there is a graph
  EXPECT_TRUE(halvedBy(2, 16));
}

TEST_F(HalvesTest, HalvesShareNothingThatOneWrites) {
  auto executors = unwrap(openRanks(16));
  auto model = modelOf(executors);
  logitsOf(*model);
  scoresOf(*model);
  for (auto &device : devices)
    for (const WatchedDevice::Graph &graph : device->graphs) {
      EXPECT_EQ(sharedBy(graph), "");
      if (graph.beside.launches.empty())
        continue;
      // No kernel waits where one of the other half could work.
      for (const auto *half : {&graph.launches, &graph.beside.launches})
        for (const KernelLaunch &launch : *half)
          EXPECT_TRUE(launch.startsAfterAll);
    }
}

/// Puts a tensor of a launch where that of the other half is.
void moveTensor(KernelLaunch &launch, const LaunchTensor &tensor, const char *address) {
  for (uint64_t &word : launch.arguments)
    if (word == reinterpret_cast<uint64_t>(tensor.address))
      word = reinterpret_cast<uint64_t>(address);
}

// Mistakes that the checks above must find.
TEST_F(HalvesTest, HalvesInOnePartOfTheArenaAreFound) {
  if (testDeviceName() != "emulate")
    GTEST_SKIP() << "what a GPU computes then is not known";
  auto executors = unwrap(openRanks(16));
  auto model = modelOf(executors);
  Rows expected, logits;
  prefillThree(*model, expected);
  // The second half's residual stream is where the first one's is.
  std::vector<std::unique_ptr<Executor>> others = unwrap(openRanks(16));
  for (size_t rank : {0, 1}) {
    Executor::Call first = others[rank]->call(Entry::Prefill, 2, 16);
    char *place = unwrap(others[rank]->addressOf(first, "x.1"));
    devices[rank]->onBranch = [place](KernelLaunch &launch) {
      for (LaunchTensor &tensor : launch.tensors)
        if (tensor.name == "%x.1") {
          moveTensor(launch, tensor, place);
          tensor.address = place;
        }
    };
  }
  auto broken = modelOf(others);
  prefillThree(*broken, logits);
  EXPECT_NE(logits, expected);
  EXPECT_NE(sharedBy(devices[0]->graphs.back()), "");
}

TEST_F(HalvesTest, HalvesWithOneInboxAreFound) {
  auto executors = unwrap(openRanks(16));
  auto model = modelOf(executors);
  Rows logits;
  prefillThree(*model, logits);
  WatchedDevice::Graph graph = devices[0]->graphs.back();
  ASSERT_EQ(sharedBy(graph), "");
  const int64_t ofLane =
      llvm::find_if(graph.launches, [](const auto &launch) { return launch.step->inbox; })->step->inbox;
  for (KernelLaunch &launch : graph.beside.launches)
    for (LaunchTensor &tensor : launch.tensors)
      if (tensor.name == "@inbox1")
        tensor.address -= ofLane;
  EXPECT_EQ(sharedBy(graph), "@inbox1");
}

TEST_F(HalvesTest, MemoryOfBothIsChecked) {
  auto needsOf = [&](int64_t halvedRows) {
    devices[0]->memoryLeft = 1;
    std::string message = messageOf(openRanks(halvedRows).takeError());
    auto [before, number] = StringRef(message).split("intermediate values ");
    double megabytes = 0;
    EXPECT_FALSE(number.split(' ').first.getAsDouble(megabytes)) << message;
    return megabytes;
  };
  Plan plan = unwrap(readPlan(planDirectory()));
  int64_t inbox = 0;
  for (const PlanStep &step : plan.function(Entry::Prefill).steps)
    inbox = std::max(inbox, step.inbox);
  EXPECT_GE(needsOf(16), needsOf(0) + static_cast<double>(inbox) / 1e6 - 0.1);
}

} // namespace
} // namespace kiln
