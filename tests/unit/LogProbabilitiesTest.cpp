#include "TestSupport.h"

#include "runtime/generation/sampling/LogProbabilities.h"

#include <cmath>
#include <limits>

namespace kiln {
namespace {

TEST(LogProbabilitiesTest, AreTheLogarithmsOfTheSoftmax) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  const std::vector<float> logits = {1000, 1001, -infinity, 1001, 999};
  const double total = std::log(std::exp(-1) + 2 + std::exp(-2));
  ChosenLogProbabilities found = logProbabilities(logits, 4, 3);
  EXPECT_EQ(found.chosen.token, 4);
  EXPECT_FLOAT_EQ(found.chosen.logProbability, static_cast<float>(-2 - total));
  ASSERT_EQ(found.top.size(), 3u);
  const std::pair<int32_t, double> wanted[] = {{1, -total}, {3, -total}, {0, -1 - total}};
  for (auto [top, expected] : llvm::zip(found.top, wanted)) {
    EXPECT_EQ(top.token, expected.first);
    EXPECT_FLOAT_EQ(top.logProbability, static_cast<float>(expected.second));
  }
  EXPECT_TRUE(logProbabilities(logits, 0, 0).top.empty());
  found = logProbabilities(logits, 0, 99);
  EXPECT_EQ(found.top.size(), logits.size());
  EXPECT_EQ(found.top.back().logProbability, -infinity);
}

} // namespace
} // namespace kiln
