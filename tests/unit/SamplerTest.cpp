#include "TestSupport.h"

#include "runtime/generation/sampling/Sampler.h"
#include "support/Random.h"

#include <cmath>

namespace kiln {
namespace {

/// Logits with the given probabilities.
std::vector<float> logitsOf(ArrayRef<double> probabilities) {
  std::vector<float> logits;
  for (double p : probabilities)
    logits.push_back(static_cast<float>(std::log(p)));
  return logits;
}

/// The frequency of each token at 20,000 positions, from 0 to 1.
std::vector<double> frequencies(const SamplingParams &params, ArrayRef<float> logits) {
  constexpr int positions = 20000;
  Sampler sampler(params);
  std::vector<double> counts(logits.size());
  for (int position = 0; position < positions; ++position)
    counts[unwrap(sampler.choose(logits, 3, position))] += 1.0 / positions;
  return counts;
}

void expectNear(ArrayRef<double> actual, ArrayRef<double> wanted) {
  ASSERT_EQ(actual.size(), wanted.size());
  for (size_t i = 0; i < wanted.size(); ++i)
    if (wanted[i] == 0)
      EXPECT_EQ(actual[i], 0) << i;
    else
      EXPECT_NEAR(actual[i], wanted[i], 0.012) << i; // more than three deviations
}

TEST(SamplerTest, ArgmaxTakesTheLowestIdAmongEquals) {
  EXPECT_EQ(unwrap(argmax({1, 3, 2, 3})), 1);
  EXPECT_EQ(unwrap(argmax({-5})), 0);
  EXPECT_EQ(unwrap(argmax({-INFINITY, -1e30f})), 1);
  EXPECT_EQ(unwrap(argmax({-0.0f, 0.0f})), 0);
}

TEST(SamplerTest, LogitsThatAreNoNumbersAreErrors) {
  EXPECT_EQ(messageOf(argmax({1, NAN})), "error: logits: expected finite numbers, got nan for token 1\n");
  EXPECT_EQ(messageOf(argmax({INFINITY})), "error: logits: expected finite numbers, got infinity for token 0\n");
  EXPECT_EQ(messageOf(argmax({-INFINITY, -INFINITY})), "error: logits: expected a finite number, got none of 2\n");
  EXPECT_EQ(messageOf(argmax({})), "error: logits: expected a finite number, got none of 0\n");
  EXPECT_EQ(messageOf(Sampler({}).choose({1, NAN}, 0, 0)),
            "error: logits: expected finite numbers, got nan for token 1\n");
}

TEST(SamplerTest, ParametersAreChecked) {
  auto errorOf = [](const SamplingParams &params) { return messageOf(checkSamplingParams(params)); };
  EXPECT_EQ(errorOf({}), "");
  EXPECT_EQ(errorOf({.temperature = 1e-5, .topK = 1, .topP = 0.1, .minP = 1}), "");
  EXPECT_EQ(errorOf({.temperature = 0}), "error: --temperature: expected a number above 0, got 0\n");
  for (double temperature : {-1.0, static_cast<double>(NAN), static_cast<double>(INFINITY)})
    EXPECT_NE(errorOf({.temperature = temperature}), "");
  EXPECT_EQ(errorOf({.topK = -1}), "error: --top-k: expected 0 (off) or more, got -1\n");
  EXPECT_EQ(errorOf({.minP = -0.5}), "error: --min-p: expected a number from 0 to 1, got -0.5\n");
  for (double minP : {1.5, static_cast<double>(NAN)})
    EXPECT_NE(errorOf({.minP = minP}), "");
  for (double topP : {0.0, -0.5, 1.5, static_cast<double>(NAN)})
    EXPECT_TRUE(StringRef(errorOf({.topP = topP})).starts_with("error: --top-p: expected a number above 0 and"));
}

TEST(SamplerTest, FollowsTheProbabilities) {
  std::vector<float> logits = logitsOf({0.1, 0.5, 0.15, 0.25});
  expectNear(frequencies({.seed = 1}, logits), {0.1, 0.5, 0.15, 0.25});
  // At temperature 0.5 probabilities are squared (sum 0.345); at 2 their roots are taken.
  expectNear(frequencies({.temperature = 0.5}, logits), {0.01 / 0.345, 0.25 / 0.345, 0.0225 / 0.345, 0.0625 / 0.345});
  double roots = std::sqrt(0.1) + std::sqrt(0.5) + std::sqrt(0.15) + 0.5;
  expectNear(frequencies({.temperature = 2}, logits),
             {std::sqrt(0.1) / roots, std::sqrt(0.5) / roots, std::sqrt(0.15) / roots, 0.5 / roots});
  expectNear(frequencies({.temperature = 1e-5}, logits), {0, 1, 0, 0});
  expectNear(frequencies({.greedy = true}, logits), {0, 1, 0, 0});
  std::vector<float> masked = {-INFINITY, 0, -INFINITY, 0};
  expectNear(frequencies({}, masked), {0, 0.5, 0, 0.5});
}

TEST(SamplerTest, TopKKeepsExactlyK) {
  std::vector<float> logits = logitsOf({0.1, 0.5, 0.15, 0.25});
  expectNear(frequencies({.topK = 2}, logits), {0, 2.0 / 3, 0, 1.0 / 3});
  expectNear(frequencies({.topK = 4}, logits), {0.1, 0.5, 0.15, 0.25});
  expectNear(frequencies({.topK = 100}, logits), {0.1, 0.5, 0.15, 0.25});
  expectNear(frequencies({.topK = 1}, {1, 2, 2, 2}), {0, 1, 0, 0});
  expectNear(frequencies({.topK = 3}, {2, 2, 1, 2, 2}), {1.0 / 3, 1.0 / 3, 0, 1.0 / 3, 0});
}

TEST(SamplerTest, TopPKeepsTheTokenThatCrosses) {
  std::vector<float> logits = logitsOf({0.1, 0.5, 0.15, 0.25});
  expectNear(frequencies({.topP = 1e-9}, logits), {0, 1, 0, 0});
  expectNear(frequencies({.topP = 0.49}, logits), {0, 1, 0, 0});
  expectNear(frequencies({.topP = 0.51}, logits), {0, 2.0 / 3, 0, 1.0 / 3});
  expectNear(frequencies({.topP = 0.74}, logits), {0, 2.0 / 3, 0, 1.0 / 3});
  expectNear(frequencies({.topP = 0.76}, logits), {0, 0.5 / 0.9, 0.15 / 0.9, 0.25 / 0.9});
  expectNear(frequencies({.topP = 1}, logits), {0.1, 0.5, 0.15, 0.25});
  // The two in the middle are equal: the lower id comes first.
  expectNear(frequencies({.topP = 0.5}, logitsOf({0.3, 0.3, 0.3, 0.1})), {0.5, 0.5, 0, 0});
}

TEST(SamplerTest, MinPKeepsWhatIsProbableEnough) {
  std::vector<float> logits = logitsOf({0.1, 0.5, 0.15, 0.25});
  expectNear(frequencies({.minP = 0.19}, logits), {0.1, 0.5, 0.15, 0.25});
  expectNear(frequencies({.minP = 0.21}, logits), {0, 0.5 / 0.9, 0.15 / 0.9, 0.25 / 0.9});
  expectNear(frequencies({.minP = 0.49}, logits), {0, 2.0 / 3, 0, 1.0 / 3});
  expectNear(frequencies({.minP = 0.51}, logits), {0, 1, 0, 0});
  expectNear(frequencies({.minP = 1e-300}, logits), {0.1, 0.5, 0.15, 0.25});
  expectNear(frequencies({.minP = 1}, {1, 2, 0, 2}), {0, 0.5, 0, 0.5});
  // The probabilities are those after the temperature.
  expectNear(frequencies({.temperature = 0.5, .minP = 0.26}, logits), {0, 1, 0, 0});
  // Top-p counts the tokens that min-p leaves out.
  expectNear(frequencies({.topP = 0.76, .minP = 0.4}, logits), {0, 2.0 / 3, 0, 1.0 / 3});
}

TEST(SamplerTest, TemperatureThenTopKThenTopP) {
  std::vector<float> logits = logitsOf({0.1, 0.5, 0.15, 0.25});
  // Among the two that top-k keeps, the first has 2/3: more than 0.6 after top-k, but not before.
  expectNear(frequencies({.topK = 2, .topP = 0.6}, logits), {0, 1, 0, 0});
  // At temperature 0.5, the first alone has 0.25 / 0.345 = 0.72.
  expectNear(frequencies({.temperature = 0.5, .topP = 0.7}, logits), {0, 1, 0, 0});
}

/// Rare tokens, too, have their share: as many draws as expected, to within four deviations.
TEST(SamplerTest, RareTokensAreDrawnAsOftenAsTheyShould) {
  std::vector<double> probabilities(2000, 0.01 / 1900);
  std::fill_n(probabilities.begin(), 100, 0.0099);
  std::vector<float> logits = logitsOf(probabilities);
  Sampler sampler({.seed = 8});
  constexpr int draws = 20000;
  double rare = 0;
  for (int i = 0; i < draws; ++i)
    rare += unwrap(sampler.choose(logits, i % 7, i)) >= 100;
  EXPECT_NEAR(rare, 0.01 * draws, 4 * std::sqrt(0.01 * draws));
}

TEST(SamplerTest, AChoiceIsTheLargestSumOfLogitAndNoise) {
  std::vector<float> logits(1000);
  for (size_t id = 0; id < logits.size(); ++id)
    logits[id] = static_cast<float>(id % 7) * 0.5f;
  Sampler sampler({.temperature = 0.7, .seed = 0x123456789abcdef});
  for (uint64_t sequence : {uint64_t(0), uint64_t(5), uint64_t(1) << 40})
    for (uint64_t position : {0, 7, 1023}) {
      size_t best = 0;
      double bestScore = -INFINITY;
      for (uint32_t id = 0; id < 1000; ++id) {
        // The word, as noise.cuh says; Gumbel's noise of it.
        PhiloxBlock words = philox4x32({static_cast<uint32_t>(position), id / 128 * 32 + id % 32,
                                        static_cast<uint32_t>(sequence), static_cast<uint32_t>(sequence >> 32)},
                                       0x123456789abcdef);
        double uniform = 1 - (words[id / 32 % 4] + 0.5) * 0x1p-32;
        double score = logits[id] / 0.7 - std::log(-std::log(uniform));
        if (score > bestScore) {
          best = id;
          bestScore = score;
        }
      }
      EXPECT_EQ(unwrap(sampler.choose(logits, sequence, position)), static_cast<int32_t>(best));
    }
}

/// Two models that agree about most of the probability choose mostly the same tokens, more often than by chance.
TEST(SamplerTest, SimilarLogitsGiveTheSameTokenMostly) {
  std::vector<double> p = {0.4, 0.3, 0.2, 0.1}, q = {0.3, 0.4, 0.2, 0.1}; // they overlap by 0.9
  Sampler sampler({.seed = 2});
  constexpr int draws = 5000;
  int same = 0;
  for (int position = 0; position < draws; ++position)
    same += unwrap(sampler.choose(logitsOf(p), 0, position)) == unwrap(sampler.choose(logitsOf(q), 0, position));
  EXPECT_GE(same, (1 - 0.1) / (1 + 0.1) * draws);
}

} // namespace
} // namespace kiln
