#include "TestSupport.h"

#include "runtime/generation/scoring/Perplexity.h"

#include <cmath>
#include <limits>

namespace kiln {
namespace {

/// Scores a token by its context's length and its id, so that every wrong window is noticed.
class FakeScorer : public Scorer {
public:
  int64_t vocabSize() const override { return 100; }
  int64_t contextLength() const override { return 8; }
  int64_t maxBatch() const override { return 3; }

  static double nllOf(size_t contextLength, int32_t target) {
    return 1.0 / static_cast<double>(contextLength) + 0.01 * target;
  }

  Expected<std::vector<std::vector<TokenScore>>> score(ArrayRef<ScoreWindow> windows) override {
    ++calls;
    EXPECT_LE(windows.size(), 3u);
    std::vector<std::vector<TokenScore>> scores;
    for (const ScoreWindow &window : windows) {
      EXPECT_EQ(window.inputs.size(), window.targets.size());
      EXPECT_LE(window.inputs.size(), 8u);
      EXPECT_LT(window.firstScored, window.targets.size());
      EXPECT_EQ(window.inputs.drop_front(), window.targets.drop_back());
      scores.emplace_back();
      for (size_t i = window.firstScored; i < window.targets.size(); ++i)
        scores.back().push_back({nllOf(i + 1, window.targets[i]), window.targets[i] % 3 == 0});
    }
    if (spoil)
      scores.back().back().nll = std::numeric_limits<double>::infinity();
    return scores;
  }

  int calls = 0;
  bool spoil = false;
};

std::vector<int32_t> someTokens(size_t count) {
  std::vector<int32_t> tokens;
  for (size_t i = 0; i < count; ++i)
    tokens.push_back(static_cast<int32_t>(i * 37 % 100));
  return tokens;
}

TEST(PerplexityTest, EachTokenIsScoredInTheFirstWindowThatPredictsIt) {
  for (size_t count : {2, 3, 8, 9, 10, 16, 17, 18, 40})
    for (size_t window : {1, 2, 5, 8})
      for (size_t stride = 1; stride <= window; ++stride) {
        std::vector<int32_t> tokens = someTokens(count);
        double wanted = 0;
        for (size_t target = 1; target < count; ++target) {
          // The first i with i * stride + window >= target.
          size_t i = target <= window ? 0 : (target - window + stride - 1) / stride;
          wanted += FakeScorer::nllOf(target - i * stride, tokens[target]);
        }
        FakeScorer scorer;
        PerplexityResult result = unwrap(
            evaluatePerplexity(scorer, tokens, {static_cast<int64_t>(window), static_cast<int64_t>(stride), nullptr}));
        EXPECT_EQ(result.tokensScored, static_cast<int64_t>(count) - 1);
        EXPECT_EQ(result.tokensBest, llvm::count_if(ArrayRef(tokens).drop_front(), [](int id) { return id % 3 == 0; }));
        EXPECT_NEAR(result.nll, wanted, 1e-9) << count << ' ' << window << ' ' << stride;
        EXPECT_EQ(result.window, static_cast<int64_t>(window));
        EXPECT_EQ(result.stride, static_cast<int64_t>(stride));
      }
}

TEST(PerplexityTest, DefaultsProgressAndError) {
  FakeScorer scorer;
  std::vector<int64_t> scoredAt;
  PerplexityOptions options;
  options.onWindow = [&](int64_t window, int64_t windowCount, const PerplexityResult &sofar) {
    EXPECT_EQ(windowCount, 4);
    EXPECT_EQ(window, static_cast<int64_t>(scoredAt.size()) + 1);
    scoredAt.push_back(sofar.tokensScored);
  };
  PerplexityResult result = unwrap(evaluatePerplexity(scorer, someTokens(28), options));
  EXPECT_EQ(result.window, 8);
  EXPECT_EQ(result.stride, 8);
  EXPECT_EQ(scoredAt, (std::vector<int64_t>{8, 16, 24, 27}));
  EXPECT_EQ(scorer.calls, 2);
  EXPECT_DOUBLE_EQ(result.perplexity(), std::exp(result.nll / 27));
  EXPECT_DOUBLE_EQ(result.accuracy(), static_cast<double>(result.tokensBest) / 27);
}

TEST(PerplexityTest, StandardErrorIsThatOfTheMean) {
  PerplexityResult result;
  for (double nll : {1.0, 2.0, 3.0, 6.0}) {
    result.nll += nll;
    result.squares += nll * nll;
    ++result.tokensScored;
  }
  // Mean 3, sample variance 14/3, of the mean 14/12.
  EXPECT_DOUBLE_EQ(result.perplexity(), std::exp(3.0));
  EXPECT_DOUBLE_EQ(result.standardError(), std::exp(3.0) * std::sqrt(14.0 / 12));
  EXPECT_EQ((PerplexityResult{1, 1, 0, 1, 1, 1}.standardError()), 0);
}

TEST(PerplexityTest, BadArguments) {
  FakeScorer scorer;
  auto errorOf = [&](ArrayRef<int32_t> tokens, int64_t window, int64_t stride) {
    return messageOf(evaluatePerplexity(scorer, tokens, {window, stride, nullptr}));
  };
  EXPECT_EQ(errorOf({1, 2}, 9, 1), "error: --window: expected 1 to the context of 8 tokens, got 9\n");
  EXPECT_EQ(errorOf({1, 2}, -1, 1), "error: --window: expected 1 to the context of 8 tokens, got -1\n");
  EXPECT_EQ(errorOf({1, 2}, 4, 5), "error: --stride: expected 1 to the window of 4 tokens, got 5\n");
  EXPECT_EQ(errorOf({1, 2}, 4, -2), "error: --stride: expected 1 to the window of 4 tokens, got -2\n");
  EXPECT_EQ(errorOf({1}, 0, 0), "error: expected a text of at least 2 tokens, got 1\n");
  EXPECT_EQ(errorOf({1, 100}, 0, 0), "error: expected token ids in 0..99, got 100\n");
  EXPECT_EQ(errorOf({1, -1}, 0, 0), "error: expected token ids in 0..99, got -1\n");
  EXPECT_EQ(scorer.calls, 0);
  scorer.spoil = true;
  EXPECT_TRUE(StringRef(errorOf({1, 2, 3}, 0, 0)).starts_with("error: expected finite log-likelihoods, got -"));
}

} // namespace
} // namespace kiln
