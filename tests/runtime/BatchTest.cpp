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
  BatchTest(int64_t most, StringRef decode) : RuntimeTest(/*width=*/128, "bf16", most, /*draftTokens=*/0, decode) {}

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

} // namespace
} // namespace kiln
