// What the reference executor makes of exchanges between ranks, in one process.
#include "IrSupport.h"

#include "reference/Evaluator.h"

#include <cmath>

namespace kiln {
namespace {

class ExchangeTest : public IrTest {
protected:
  /// The results on each rank of a function without arguments. Element i of a weight is `10^rank * (i + 1)`.
  std::vector<std::vector<float>> run(StringRef text) {
    parse(text);
    Evaluator<float> evaluator(*module, [](const Value &weight, int64_t rank) -> Expected<Tensor<float>> {
      Tensor<float> tensor(weight.recipe->shape);
      for (auto [i, element] : llvm::enumerate(tensor.elements()))
        element = static_cast<float>(std::pow(10, rank)) * static_cast<float>(i + 1);
      return tensor;
    });
    std::vector<std::vector<float>> all;
    for (const auto &results : unwrap(evaluator.runRanks("f", {})))
      all.emplace_back(results[0].elements().begin(), results[0].elements().end());
    return all;
  }
};

using Ranks = std::vector<std::vector<float>>;

TEST_F(ExchangeTest, AllReduceAddsUpAllRanks) {
  EXPECT_EQ(run(R"(module @m attributes {ranks = 3} {
  weight %w : f32[2,2] = "w"
  func @f() -> f32[2,2] {
    %s = all_reduce %w : f32[2,2]
    return %s
  }
}
)"),
            Ranks(3, {111, 222, 333, 444}));
}

/// ((1 + 2^24) - 2^24) is 0 in float: 1 is lost. Another order would give 1.
TEST_F(ExchangeTest, AllReduceAddsInTheOrderOfTheRanks) {
  parse(R"(module @m attributes {ranks = 3} {
  weight %w : f32[1] = "w"
  func @f() -> f32[1] {
    %s = all_reduce %w : f32[1]
    return %s
  }
}
)");
  Evaluator<float> evaluator(*module, [](const Value &weight, int64_t rank) -> Expected<Tensor<float>> {
    constexpr float values[] = {1, 0x1p24F, -0x1p24F};
    Tensor<float> tensor(weight.recipe->shape);
    tensor.data()[0] = values[rank];
    return tensor;
  });
  for (const auto &results : unwrap(evaluator.runRanks("f", {})))
    EXPECT_EQ(results[0].data()[0], 0);
}

/// The last rank has room for two columns and fills one; the first of a row of units fills all.
TEST_F(ExchangeTest, AllGatherDropsWhatAShareDoesNotFill) {
  EXPECT_EQ(run(R"(module @m attributes {ranks = 3} {
  weight %w : f32[2,2] = "w"
  func @f() -> f32[2,5] {
    %s = all_gather %w {size = 5} : f32[2,5]
    return %s
  }
}
)"),
            Ranks(3, {1, 2, 10, 20, 100, 3, 4, 30, 40, 300}));
  EXPECT_EQ(run(R"(module @m attributes {ranks = 2} {
  weight %w : f32[1,4] = "w"
  func @f() -> f32[1,6] {
    %s = all_gather %w {size = 6, unit = 2} : f32[1,6]
    return %s
  }
}
)"),
            Ranks(2, {1, 2, 3, 4, 10, 20}));
}

/// A region that exchanges: all ranks run it op by op.
TEST_F(ExchangeTest, InAFusedRegion) {
  EXPECT_EQ(run(R"(module @m attributes {ranks = 2} {
  weight %w : f32[2] = "w"
  func @f() -> f32[2] {
    %d = fused @all_reduce_scale(%w) {
      %s = all_reduce %w           : f32[2]
      %d = scale %s {factor = 2.0} : f32[2]
      yield %d
    } : f32[2]
    return %d
  }
}
)"),
            Ranks(2, {22, 44}));
}

} // namespace
} // namespace kiln
