// sample/choice.cuh and sample/noise.cuh: the integers by which a token is chosen.

#include "runtime/generation/sampling/Sampler.h"
#include "sample/choice.cuh"
#include "support/ADT.h"
#include "support/Random.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace kiln {
namespace {

TEST(SamplingArithmetic, PhiloxIsThatOfTheHost) {
  for (uint64_t i : {uint64_t(0), uint64_t(1), uint64_t(0x123456789abcdef0), ~uint64_t(0)}) {
    PhiloxBlock host =
        philox4x32({static_cast<uint32_t>(i), static_cast<uint32_t>(i >> 32), static_cast<uint32_t>(i * 7), 0}, i * 3);
    PhiloxWords device = philox(i, static_cast<uint32_t>(i * 7), i * 3);
    EXPECT_TRUE(std::equal(host.begin(), host.end(), device.words));
  }
}

TEST(SamplingArithmetic, KeysAreInTheOrderOfTheirFloats) {
  const float values[] = {-std::numeric_limits<float>::infinity(), -3e38f, -1, -1e-40f, 0, 1e-40f, 1, 3e38f,
                          std::numeric_limits<float>::infinity()};
  for (size_t i = 0; i < std::size(values); ++i) {
    EXPECT_EQ(valueOfKey(orderedKey(values[i])), values[i]);
    if (i > 0) {
      EXPECT_LT(orderedKey(values[i - 1]), orderedKey(values[i]));
    }
  }
  EXPECT_EQ(orderedKey(-0.0f), orderedKey(0.0f));
  EXPECT_EQ(orderedKey(std::numeric_limits<float>::infinity()), kInfinityKey);
  EXPECT_EQ(orderedKey(-std::numeric_limits<float>::infinity()), kMinusInfinityKey);
}

TEST(SamplingArithmetic, ProductsAreExact) {
  for (uint64_t a : {~uint64_t(0), uint64_t(0xfedcba9876543210), uint64_t(3)})
    for (uint64_t b : {~uint64_t(0), uint64_t(0x123456789abcdef), uint64_t(1) << 63})
      EXPECT_EQ(multiplyHigh(a, b), static_cast<uint64_t>(static_cast<unsigned __int128>(a) * b >> 64));
}

TEST(SamplingArithmetic, WeightsAreExponentials) {
  const float scale = samplingScale({.temperature = 0.7});
  auto weightOf = [](float logit, float scale) { return weightOfExponent(tokenExponent(logit, 5, scale)); };
  uint64_t last = ~uint64_t(0);
  for (float logit = 5; logit > -10; logit -= 0.01f) {
    const uint64_t weight = weightOf(logit, scale);
    const double exact = std::exp((static_cast<double>(logit) - 5) / 0.7) * 0x1p40;
    // Scale and exponent are floats, and the exponent is up to 31: rounding may lose 2^-19 of it.
    EXPECT_NEAR(static_cast<double>(weight), exact, exact * 0x1p-19 + 2) << logit;
    EXPECT_LE(weight, last);
    last = weight;
  }
  EXPECT_EQ(weightOf(-std::numeric_limits<float>::infinity(), scale), 0u);
  EXPECT_EQ(weightOf(-1e30f, scale), 0u);
  // At a temperature near 0, only the most probable tokens remain.
  const float sharpest = samplingScale({.temperature = 1e-300});
  EXPECT_GT(weightOf(5, sharpest), 0u);
  EXPECT_EQ(weightOf(4.999f, sharpest), 0u);
  EXPECT_EQ(tokenExponent(4.999f, 5, sharpest), kLargestExponent);
}

TEST(SamplingArithmetic, ExponentsAddUp) {
  uint32_t most = 0;
  for (uint32_t i = 0; i < 300000; ++i) {
    const PhiloxWords words = philox(i, 1, 5);
    // Logits around any value, at any temperature that spreads them over the exponents.
    const float spread = std::exp2(static_cast<float>(words.words[0] % 40) - 20);
    const float largest = normalFloat(words.words[1]) * spread * std::exp2(static_cast<float>(i % 7));
    const float between = largest - uniformFloat(words.words[2]) * spread;
    const float logit = between - uniformFloat(words.words[3]) * spread;
    const float scale = samplingScale({.temperature = spread / (1 + static_cast<float>(i % 50))});
    const uint32_t exponent = tokenExponent(logit, largest, scale);
    const uint32_t sum = tokenExponent(logit, between, scale) + tokenExponent(between, largest, scale);
    if (exponent == kLargestExponent) {
      EXPECT_GE(sum, kLargestExponent - kExponentRounding);
      continue;
    }
    const uint32_t difference = std::max(exponent, sum) - std::min(exponent, sum);
    EXPECT_LE(difference, kExponentRounding) << largest << ' ' << between << ' ' << logit << ' ' << scale;
    most = std::max(most, difference);
  }
  EXPECT_GT(most, kExponentRounding / 8); // the bound is no guess
}

/// gumbelNoise in floating point.
double exactNoise(uint64_t x) {
  const long double v = std::ldexp(static_cast<long double>(x), -64),
                    rest = std::ldexp(static_cast<long double>(-x), -64);
  return static_cast<double>(-std::log2(x >> 63 ? -std::log2(rest) : -std::log1p(-v) / std::log(2.0L)));
}

TEST(SamplingArithmetic, NoiseIsGumbels) {
  std::vector<uint64_t> values = {1, 2, 3, ~uint64_t(0), ~uint64_t(1), uint64_t(1) << 63, (uint64_t(1) << 63) - 1};
  for (uint32_t i = 0; i < 200000; ++i) {
    const PhiloxWords words = philox(i, 0, 5);
    values.push_back((uint64_t(words.words[0]) << 32 | words.words[1] | 1) >> words.words[2] % (i % 2 ? 64 : 1));
  }
  for (uint64_t x : values) {
    x = std::max<uint64_t>(x, 1);
    EXPECT_LT(std::abs(gumbelNoise(x) * 0x1p-24 - exactNoise(x)), 0x1p-24) << x;
    EXPECT_GE(gumbelNoise(x), kLeastNoise);
    EXPECT_LE(gumbelNoise(x), kMostNoise);
  }
}

TEST(SamplingArithmetic, NoiseIsAFunctionOfItsKeyAndTheToken) {
  const NoiseKey key = {0x123456789abcdef, uint64_t(1) << 40, 77};
  std::set<int32_t> seen;
  for (uint32_t id = 0; id < 1000; ++id) {
    // Philox with the counter (position, block, sequence), as noise.cuh says.
    const uint32_t block = id / 128 * 32 + id % 32;
    const PhiloxBlock words = philox4x32({77, block, 0, 1 << 8}, key.seed);
    const uint64_t word = words[id / 32 % 4];
    EXPECT_EQ(tokenNoise(key, id), gumbelNoise(word << 32 | 0x80000001)) << id;
    EXPECT_LE(tokenNoise(key, id), noiseBound(static_cast<uint32_t>(word)));
    seen.insert(tokenNoise(key, id));
  }
  EXPECT_GE(seen.size(), 999u);
  for (const NoiseKey &other :
       {NoiseKey{key.seed + 1, key.sequence, 77}, {key.seed, key.sequence + 1, 77}, {key.seed, key.sequence, 78}})
    EXPECT_NE(tokenNoise(other, 3), tokenNoise(key, 3));
}

TEST(SamplingArithmetic, SmallWordsHaveMoreBits) {
  const NoiseKey key = {1, 2, 3};
  for (uint32_t word : {0u, 1u, 4095u}) {
    // The largest noises are those of the smallest words, and are finer than words are.
    std::set<int32_t> noises;
    for (uint32_t id = 0; id < 100; ++id) {
      noises.insert(tokenNoise(key, id, word));
      EXPECT_LE(tokenNoise(key, id, word), noiseBound(word));
      EXPECT_GE(tokenNoise(key, id, word), gumbelNoise(uint64_t(word + 1) << 32));
    }
    EXPECT_GE(noises.size(), 99u) << word;
  }
  EXPECT_EQ(tokenNoise(key, 0, 4096), tokenNoise(key, 1, 4096));
  for (uint32_t word = 1; word != 0; word <<= 1)
    for (uint32_t close : {word, 2 * word - 1})
      EXPECT_LE(tokenNoise(key, 0, close), noiseBound(close)) << close;
}

/// The noise of a million tokens of several positions and sequences: 256 ranges that are equally probable, and the
/// ranges of neighbouring tokens, positions and sequences together, have the counts that chance gives.
TEST(SamplingArithmetic, NoiseHasTheDistributionThatItShould) {
  constexpr int ids = 1 << 14, positions = 8, sequences = 8, ranges = 16;
  auto rangeOf = [](uint64_t sequence, uint64_t position, uint32_t id, int count) {
    const double noise = tokenNoise({99, sequence, position}, id) * 0x1p-24;
    const double uniform = std::exp(-std::exp2(-noise) * std::log(2.0)); // the distribution function
    return std::min(static_cast<int>(uniform * count), count - 1);
  };
  std::vector<double> single(ranges * ranges), pairs[3];
  for (std::vector<double> &counts : pairs)
    counts.assign(ranges * ranges, 0);
  for (uint64_t sequence = 0; sequence < sequences; ++sequence)
    for (uint64_t position = 0; position < positions; ++position)
      for (uint32_t id = 0; id < ids; ++id) {
        ++single[rangeOf(sequence, position, id, ranges * ranges)];
        const int own = rangeOf(sequence, position, id, ranges) * ranges;
        ++pairs[0][own + rangeOf(sequence, position, id + 1, ranges)];
        ++pairs[1][own + rangeOf(sequence, position + 1, id, ranges)];
        ++pairs[2][own + rangeOf(sequence + 1, position, id, ranges)];
      }
  for (const std::vector<double> &counts : {single, pairs[0], pairs[1], pairs[2]}) {
    const double wanted = static_cast<double>(ids) * positions * sequences / (ranges * ranges);
    double chiSquare = 0;
    for (double count : counts)
      chiSquare += (count - wanted) * (count - wanted) / wanted;
    // 255 degrees of freedom: mean 255, deviation 22.6.
    EXPECT_NEAR(chiSquare, 255, 4 * 22.6);
  }
}

} // namespace
} // namespace kiln
