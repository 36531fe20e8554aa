// Rows of a batch, and the same rows alone.

#include "runtime/RuntimeTest.h"

namespace kiln {
namespace {

using Rows = std::vector<std::vector<float>>;

/// A model whose products the tensor cores of Hopper multiply by kernels for several numbers of rows. Its width is two
/// steps of the depth, which two ranges can share; so even sums of logits, which are not rounded, have an order.
class BatchTest : public RuntimeTest {
protected:
  static constexpr int64_t largest = 40;

  BatchTest() : RuntimeTest(/*width=*/128, "bf16", largest) {}
  BatchTest(int64_t most, StringRef decode, StringRef dtype = "bf16", int64_t positions = context)
      : RuntimeTest(/*width=*/128, dtype, most, /*draftTokens=*/0, decode, positions) {}

  void SetUp() override {
    if (targetOf(*counted) != "sm_90a")
      GTEST_SKIP() << "expected a GPU with wgmma, sm_90a, got one of " << targetOf(*counted);
  }

  /// The token of a sequence at a position.
  static int32_t tokenAt(int64_t sequence, int32_t position) {
    return static_cast<int32_t>((sequence * 37 + position * 11 + 5) % 101);
  }

  /// The logits of each step of sequences first .. first + batch, which come token by token. By @decode alone: a
  /// prompt's products run on kernels that depend on the number of its rows.
  Rows decode(int64_t first, int64_t batch, int32_t steps) {
    auto executor = unwrap(open(weights, batch));
    const DecodeEntry &names = *executor->plan().entries.decode;
    Rows logits;
    for (int32_t position = 0; position < steps; ++position) {
      Ids tokens, positions(batch, position);
      for (int64_t row = 0; row < batch; ++row)
        tokens.push_back(tokenAt(first + row, position));
      Executor::Call call = executor->call(Entry::Decode, batch);
      call.arguments = {{names.tokens, tokens}, {names.positions, positions}};
      expectSuccess(executor->enqueue(call));
      logits.emplace_back(static_cast<size_t>(batch) * 101);
      expectSuccess(executor->download(names.logits, 0, logits.back()));
    }
    return logits;
  }

  /// Expects of batches of these sizes that each row has the bits of the row alone.
  void expectEqualBits(ArrayRef<int64_t> batches, int32_t steps) {
    std::vector<Rows> alone;
    for (int64_t sequence = 0; sequence < batches.back(); ++sequence)
      alone.push_back(decode(sequence, 1, steps));
    for (int64_t batch : batches) {
      Rows together = decode(0, batch, steps);
      for (int64_t row = 0; row < batch; ++row)
        for (int32_t step = 0; step < steps; ++step) {
          ArrayRef<float> logits = ArrayRef(together[step]).slice(row * 101, 101), own = alone[row][step];
          EXPECT_TRUE(llvm::none_of(own, [](float logit) { return std::isnan(logit); }));
          EXPECT_EQ(std::memcmp(logits.data(), own.data(), 101 * sizeof(float)), 0)
              << "row " << row << " of " << batch << ", step " << step;
        }
    }
  }

  /// The products of @decode run on these families: with up to 16 rows on the first, with more on the second.
  void expectProductsOn(StringRef few, StringRef many) {
    Plan plan = unwrap(readPlan(planDirectory()));
    for (const PlanStep &step : plan.function(Entry::Decode).steps)
      if (StringRef(step.launch.kernel).starts_with("matmul")) {
        EXPECT_EQ(plan.findKernel(step.launchFor({{"B", 16}}).kernel)->family, few) << step.launch.kernel;
        EXPECT_EQ(plan.findKernel(step.launch.kernel)->family, many) << step.launch.kernel;
      }
  }
};

TEST_F(BatchTest, ARowHasTheBitsOfTheRowAlone) {
  expectProductsOn("gemv_mma_warps", "gemv_wgmma");
  expectEqualBits({3, 9, 20}, /*steps=*/4);
}

/// The same layers in one kernel.
class PersistentBatchTest : public BatchTest {
protected:
  PersistentBatchTest() : BatchTest(/*most=*/8, "persistent") {}
};

TEST_F(PersistentBatchTest, ARowHasTheBitsOfTheRowAlone) {
  const Plan plan = unwrap(readPlan(planDirectory()));
  const PlanStep &step = plan.function(Entry::Decode).steps.back();
  EXPECT_EQ(step.variants.size(), 3U);
  for (const PlanLaunch *launch : step.launches())
    EXPECT_EQ(plan.findKernel(launch->kernel)->family, "decode_layers");
  expectEqualBits({3, 8}, /*steps=*/2);
}

/// Prompts of two classes of lengths: up to 64 tokens, and longer ones. In f16, whose rounding hides fewer of the
/// differences between orders of sums than that of bf16.
class PromptBatchTest : public BatchTest {
protected:
  static constexpr int64_t most = 4;

  PromptBatchTest() : BatchTest(most, "graph", "f16", /*positions=*/72) { entries = {Entry::Prefill, Entry::Score}; }

  static Ids promptOf(int64_t sequence, int64_t length) {
    Ids ids;
    for (int64_t i = 0; i < length; ++i)
      ids.push_back(tokenAt(sequence, static_cast<int32_t>(i)));
    return ids;
  }

  Rows prefill(ArrayRef<Ids> prompts) {
    auto executor = unwrap(open(weights, most));
    PlanModel model(*executor);
    Rows logits(prompts.size());
    expectSuccess(model.prefill(prompts, logits));
    return logits;
  }

  /// The log-likelihoods of the tokens of each prompt but the first.
  Rows score(ArrayRef<Ids> prompts) {
    auto executor = unwrap(open(weights, most));
    PlanModel model(*executor);
    std::vector<ScoreWindow> windows;
    for (const Ids &prompt : prompts)
      windows.push_back({ArrayRef(prompt).drop_back(), ArrayRef(prompt).drop_front(), 0});
    Rows scores;
    for (const std::vector<TokenScore> &own : unwrap(model.score(windows))) {
      scores.emplace_back();
      for (const TokenScore &token : own)
        scores.back().push_back(static_cast<float>(token.nll));
    }
    return scores;
  }
};

TEST_F(PromptBatchTest, APromptHasTheBitsOfThePromptAlone) {
  const std::vector<Ids> prompts = {promptOf(0, 64), promptOf(1, 60), promptOf(2, 71), promptOf(3, 9)};
  Rows together = prefill(prompts), scores = score(prompts);
  for (auto [prompt, logits, scored] : llvm::zip(prompts, together, scores)) {
    EXPECT_TRUE(llvm::none_of(logits, [](float logit) { return std::isnan(logit); }));
    EXPECT_EQ(prefill(prompt)[0], logits) << prompt.size();
    EXPECT_EQ(score(prompt)[0], scored) << prompt.size();
  }
}

TEST_F(PromptBatchTest, PromptsOfTwoClassesAreEvaluatedApart) {
  auto executor = unwrap(open(weights, most));
  ASSERT_EQ(PromptClasses(executor->plan()).of(64), 0);
  EXPECT_EQ(PromptClasses(executor->plan()).of(65), 1);
  PlanModel model(*executor);
  Rows first(1);
  expectSuccess(model.prefill({promptOf(0, 1)}, first)); // uploads the weights, too
  auto callsFor = [&](ArrayRef<int64_t> lengths) {
    std::vector<Ids> prompts;
    for (auto [i, length] : llvm::enumerate(lengths))
      prompts.push_back(promptOf(static_cast<int64_t>(i), length));
    Rows logits(prompts.size());
    int before = device->counts.uploads;
    expectSuccess(model.prefill(prompts, logits));
    return (device->counts.uploads - before) / 2; // tokens and lengths
  };
  EXPECT_EQ(callsFor({64, 3, 60, 33}), 1);
  EXPECT_EQ(callsFor({72, 65}), 1);
  EXPECT_EQ(callsFor({64, 65}), 2);
  EXPECT_EQ(callsFor({10, 70, 20, 30}), 3);
}

} // namespace
} // namespace kiln
