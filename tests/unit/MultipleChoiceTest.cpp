#include "TestSupport.h"

#include "runtime/generation/scoring/MultipleChoice.h"

#include <cmath>

namespace kiln {
namespace {

/// Finds token `id` worth `id` nats in every place.
class TokenScorer : public Scorer {
public:
  int64_t vocabSize() const override { return 100; }
  int64_t contextLength() const override { return 6; }
  int64_t maxBatch() const override { return 3; }

  Expected<std::vector<std::vector<TokenScore>>> score(ArrayRef<ScoreWindow> windows) override {
    EXPECT_LE(windows.size(), 3u);
    std::vector<std::vector<TokenScore>> scores;
    for (const ScoreWindow &window : windows) {
      EXPECT_LE(window.inputs.size(), 6u);
      EXPECT_EQ(window.inputs.drop_front(), window.targets.drop_back());
      lengths.push_back(window.inputs.size());
      scores.emplace_back();
      for (int32_t id : window.targets.drop_front(window.firstScored))
        scores.back().push_back({id == spoiledId ? NAN : static_cast<double>(id), false});
    }
    return scores;
  }

  std::vector<size_t> lengths;
  int32_t spoiledId = -1;
};

TEST(MultipleChoiceTest, TheSumAndTheMeanOfAnEndingDecide) {
  std::vector<ChoiceExample> examples = {
      {{90, 91}, {{5}, {2, 2}, {9}}, 1},       // sums 5, 4, 9; means 5, 2, 9: both choose 1
      {{90}, {{5}, {4, 4, 4}}, 0},             // sums 5, 12; means 5, 4: only the sum is right
      {{90, 91, 92}, {{7}, {1, 1}, {6, 6}}, 2} // both choose 1
  };
  TokenScorer scorer;
  int calls = 0;
  ChoiceOptions options;
  options.onExamples = [&](const ChoiceResult &sofar) {
    ++calls;
    EXPECT_EQ(sofar.examples, 3);
  };
  ChoiceResult result = unwrap(evaluateChoices(scorer, examples, options));
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(result.right, 2);
  EXPECT_EQ(result.rightNormalised, 1);
  EXPECT_EQ(result.tokensScored, 13);
  EXPECT_EQ(result.truncated, 0);
  EXPECT_DOUBLE_EQ(result.accuracy(), 2.0 / 3);
  EXPECT_DOUBLE_EQ(result.accuracyError(), std::sqrt(2.0 / 3 * (1.0 / 3) / 2));
  // Windows of like length go together.
  EXPECT_EQ(scorer.lengths, (std::vector<size_t>{4, 4, 3, 3, 3, 2, 2, 1}));
}

TEST(MultipleChoiceTest, EqualEndingsAreTheFirst) {
  TokenScorer scorer;
  std::vector<ChoiceExample> examples = {{{1}, {{3}, {3}}, 0}, {{1}, {{3}, {3}}, 1}};
  ChoiceResult result = unwrap(evaluateChoices(scorer, examples, {.batch = 1}));
  EXPECT_EQ(result.right, 1);
  EXPECT_EQ(result.rightNormalised, 1);
}

TEST(MultipleChoiceTest, LongContextsAndEndingsAreCutOnTheLeft) {
  TokenScorer scorer;
  std::vector<ChoiceExample> examples = {{{1, 1, 1, 1, 1, 1}, {{2}, {3}}, 0},           // 6 inputs each: fits
                                         {{1, 1, 1, 1, 1, 1, 1}, {{2}, {3, 3}}, 0},     // one too many
                                         {{1}, {{2, 2, 2, 2, 2, 2, 2, 2}, {9, 9}}, 0}}; // an ending of 8, of which 6
  ChoiceResult result = unwrap(evaluateChoices(scorer, examples, {}));
  EXPECT_EQ(result.truncated, 2);
  EXPECT_EQ(result.right, 3);
  EXPECT_EQ(result.tokensScored, 2 + 3 + 8);
}

TEST(MultipleChoiceTest, BadScores) {
  TokenScorer scorer;
  EXPECT_EQ(messageOf(evaluateChoices(scorer, {}, {})), "error: expected at least one example, got none\n");
  scorer.spoiledId = 4;
  std::vector<ChoiceExample> examples = {{{1}, {{3}, {2}}, 0}, {{1}, {{3}, {4}}, 0}};
  EXPECT_TRUE(StringRef(messageOf(evaluateChoices(scorer, examples, {})))
                  .starts_with("error: expected finite log-likelihoods, got"));
}

} // namespace
} // namespace kiln
