// Plans and calls that do not match the device, the kernels or a language model are refused before anything runs.

#include "runtime/RuntimeTest.h"

namespace kiln {
namespace {

TEST(LaunchArguments, AreWhatTheKernelTakes) {
  PlanLaunch launch;
  launch.kernel = "k";
  launch.arguments = {"%x", "B", "@workspace"};
  expectSuccess(checkArguments(launch, {}, {8, 4, 8}));
  EXPECT_EQ(messageOf(checkArguments(launch, {}, {8, 4})),
            "error: kernel k: expected 2 arguments in the plan, got 3\n");
  EXPECT_EQ(messageOf(checkArguments(launch, {}, {8, 4, 8, 4})),
            "error: kernel k: expected 4 arguments in the plan, got 3\n");
  EXPECT_EQ(messageOf(checkArguments(launch, {}, {8, 8, 8})),
            "error: kernel k: argument 2: expected 8 bytes, got the dim B of 4 bytes\n");
  EXPECT_EQ(messageOf(checkArguments(launch, {}, {8, 4, 4})),
            "error: kernel k: argument 3: expected 4 bytes, got the address @workspace of 8 bytes\n");
  EXPECT_EQ(messageOf(checkArguments(launch, {}, {32, 4, 8})),
            "error: kernel k: argument 1: expected 32 bytes, got the address %x of 8 bytes\n");
}

TEST(LaunchArguments, AreTensorMapsWhereThePlanHasThem) {
  PlanLaunch launch;
  launch.kernel = "k";
  launch.arguments = {"%x", "%w", "B"};
  PlanKernel kernel;
  kernel.maps.resize(1);
  kernel.maps[0].argument = 1;
  expectSuccess(checkArguments(launch, kernel, {8, 128, 4}));
  EXPECT_EQ(messageOf(checkArguments(launch, {}, {8, 128, 4})),
            "error: kernel k: argument 2: expected 128 bytes, got the address %w of 8 bytes\n");
  EXPECT_EQ(messageOf(checkArguments(launch, kernel, {8, 8, 4})),
            "error: kernel k: argument 2: expected 8 bytes, got a map of %w of 128 bytes\n");
  EXPECT_EQ(messageOf(checkArguments(launch, kernel, {128, 128, 4})),
            "error: kernel k: argument 1: expected 128 bytes, got the address %x of 8 bytes\n");
}

TEST(LaunchArguments, OfAnArrayAreOneParameter) {
  PlanLaunch launch;
  launch.kernel = "k";
  launch.arguments = {"%x", "%w.0", "%w.1", "%b.0", "%b.1", "B"};
  PlanKernel kernel;
  kernel.maps.resize(1);
  kernel.maps[0].argument = 1;
  kernel.arrays = {{1, 2}, {3, 2}};
  expectSuccess(checkArguments(launch, kernel, {8, 256, 16, 4}));
  EXPECT_EQ(messageOf(checkArguments(launch, kernel, {8, 256, 8, 4})),
            "error: kernel k: argument 4: expected 8 bytes, got an array of 2, with the address %b.0 of 16 bytes\n");
  EXPECT_EQ(messageOf(checkArguments(launch, kernel, {8, 128, 128, 8, 8, 4})),
            "error: kernel k: argument 2: expected 128 bytes, got an array of 2, with a map of %w.0 of 256 bytes\n");
  EXPECT_EQ(messageOf(checkArguments(launch, kernel, {8, 256, 16})),
            "error: kernel k: expected 3 arguments in the plan, got 4\n");
}

TEST(LaunchParameters, PointToArgumentsAndMaps) {
  KernelLaunch launch;
  launch.parameters = {0, 1, 3, 5};
  launch.maps.resize(2);
  launch.maps[0].argument = 1;
  launch.maps[1].argument = 2;
  std::vector<uint64_t> words(6);
  std::array<char, 2 * tensorMapBytes> maps;
  const SmallVector<void *, 4> expected = {&words[0], maps.data(), &words[3], &words[5]};
  EXPECT_EQ(ArrayRef<void *>(parameterPointers(launch, words, maps.data())), ArrayRef<void *>(expected));
}

class ChecksTest : public RuntimeTest {
protected:
  Plan plan = unwrap(readPlan(planDirectory()));
  PlanFunction &prefill = plan.functions[0], &decode = *llvm::find_if(plan.functions, isNamed("decode")),
               &sample = *llvm::find_if(plan.functions, isNamed("sample"));

  static std::function<bool(const PlanFunction &)> isNamed(StringRef name) {
    return [name](const PlanFunction &function) { return function.name == name; };
  }
  std::string refusal() { return messageOf(open(weights, 2, plan)); }
};

/// The parameters of all kernels are known when they are loaded.
class ParameterChecksTest : public ChecksTest {
protected:
  ParameterChecksTest() {
    counted = unwrap(openTestDevice(0, /*compilesAhead=*/true));
    device = std::make_unique<CountingDevice>(*counted);
  }
};

TEST_F(ParameterChecksTest, KernelsAreGivenWhatTheyTake) {
  PlanLaunch &launch = prefill.steps[0].launch;
  const std::vector<std::string> arguments = launch.arguments;
  const std::string count = std::to_string(arguments.size()), last = arguments.back();
  ASSERT_EQ(last, "T");
  launch.arguments.back() = "%tokens";
  EXPECT_EQ(refusal(), "error: kernel " + launch.kernel + ": argument " + count +
                           ": expected 4 bytes, got the address %tokens of 8 bytes\n");
  launch.arguments = arguments;
  launch.arguments[0] = "B";
  EXPECT_EQ(refusal(), "error: kernel " + launch.kernel + ": argument 1: expected 8 bytes, got the dim B of 4 bytes\n");
  launch.arguments = arguments;
  launch.arguments.pop_back();
  EXPECT_TRUE(StringRef(refusal()).contains(": expected " + count + " arguments in the plan, got "));
  EXPECT_EQ(device->counts.launches, 0);
}

TEST_F(ParameterChecksTest, VariantsAreGivenWhatTheyTake) {
  auto step = llvm::find_if(decode.steps, [](const PlanStep &step) { return !step.variants.empty(); });
  ASSERT_NE(step, decode.steps.end());
  PlanLaunch &launch = step->variants.back().launch;
  launch.arguments.push_back("B");
  EXPECT_TRUE(StringRef(refusal()).starts_with("error: kernel " + launch.kernel + ": expected "));
}

TEST_F(ChecksTest, SumsOfMemoryDoNotOverflow) {
  device->memoryLeft = INT64_MAX;
  const Expr half(int64_t(1) << 60); // floats of 4 bytes
  for (PlanTensor &state : plan.states)
    state.shape = {Expr::name("B"), half};
  EXPECT_EQ(refusal(), "error: '4611686018427387904*B' is past 64 bits\n");
  for (PlanTensor &state : plan.states)
    state.shape = {Expr::name("B"), Expr((int64_t(1) << 59) - 1)};
  EXPECT_EQ(refusal(), "error: the plan needs more memory than 64 bits can count\n");
  EXPECT_EQ(device->counts.allocations, 0);
}

TEST_F(ChecksTest, MemoryOfArgumentsAndCountersCounts) {
  device->memoryLeft = int64_t(1) << 30;
  prefill.steps[0].counters = Expr(int64_t(1) << 30);
  EXPECT_TRUE(StringRef(refusal()).starts_with("error: out of memory on test: needed are 429")) << refusal();
  prefill.steps[0].counters = Expr(0);
  decode.arguments[0].shape = {Expr::name("B"), Expr(int64_t(1) << 29)};
  EXPECT_TRUE(StringRef(refusal()).starts_with("error: out of memory on test: needed are 429")) << refusal();
}

TEST_F(ChecksTest, CallsHaveThePlansDims) {
  auto executor = unwrap(open(weights, 2, plan));
  Ids tokens(8, 1), lengths = {8};
  Executor::Call call = executor->call(Entry::Prefill, 1, 8);
  call.arguments = {{"tokens", tokens}, {"lengths", lengths}};
  expectSuccess(executor->enqueue(call));
  call.dims = {{"B", 1}};
  EXPECT_EQ(messageOf(executor->enqueue(call)), "error: @prefill: expected T from 1 to 24, got none\n");
  EXPECT_EQ(messageOf(executor->launches(call)), "error: @prefill: expected T from 1 to 24, got none\n");
  call.dims = {{"B", 1}, {"T", 0}};
  EXPECT_EQ(messageOf(executor->enqueue(call)), "error: @prefill: expected T from 1 to 24, got 0\n");
  call.dims = {{"B", 1}, {"T", 8}, {"X", 1}};
  EXPECT_EQ(messageOf(executor->enqueue(call)), "error: @prefill: the plan has no dim X\n");
  call.dims = {{"B", 1}, {"T", 8}};
  call.firstRow = 2;
  EXPECT_EQ(messageOf(executor->enqueue(call)),
            "error: @prefill: expected rows of the 2 there are, got 1 from row 2\n");
}

TEST_F(ChecksTest, NothingIsReadPastTheEndOfATensor) {
  auto executor = unwrap(open(weights, 1, plan));
  Ids tokens(8, 1), lengths = {8};
  Executor::Call call = executor->call(Entry::Prefill, 1, 8);
  call.arguments = {{"tokens", tokens}, {"lengths", lengths}};
  expectSuccess(executor->enqueue(call));
  std::vector<float> row(101);
  expectSuccess(executor->download("logits", 0, row));
  EXPECT_EQ(messageOf(executor->download("logits", 1, row)),
            "error: tensor 'logits': expected 101 elements from element 1 on, got a tensor of 101\n");
  EXPECT_EQ(messageOf(executor->download("logits", -1, row)),
            "error: tensor 'logits': expected 101 elements from element -1 on, got a tensor of 101\n");
}

TEST_F(ChecksTest, WhatSamplingLeavesIsAToken) {
  GenerateOptions options;
  options.maxNewTokens = 2;
  options.sampling.greedy = true;
  auto run = [&](const Plan &changed) {
    auto executor = unwrap(open(weights, 2, changed));
    PlanModel model(*executor);
    return messageOf(generate(model, nullptr, {Ids{0, 0}, Ids{0}}, options));
  };
  EXPECT_EQ(run(plan), "");
  Plan narrow = plan;
  narrow.model.vocabulary = 1; // but the kernel chooses from 101
  EXPECT_TRUE(StringRef(run(narrow)).starts_with("error: @sample: expected a token from 0 to 0, got ")) << run(narrow);
  for (PlanTensor &argument : sample.arguments)
    if (argument.name == "ring")
      argument.shape.back() = Expr(129); // words; an entry has two of them
  EXPECT_EQ(run(plan), "error: @sample of the plan is of another version; compile the model again\n");
}

} // namespace
} // namespace kiln
