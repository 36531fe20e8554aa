#include "TestSupport.h"

#include "runtime/weights/RandomCheckpoint.h"
#include "support/Random.h"

#include <cmath>
#include <cstring>

namespace kiln {
namespace {

TEST(PhiloxTest, KnownAnswersOfRandom123) {
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, 0), (PhiloxBlock{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox4x32({~0u, ~0u, ~0u, ~0u}, ~0ull), (PhiloxBlock{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, 0x299f31d0a4093822),
            (PhiloxBlock{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(RandomTest, UniformsAreBelowOne) {
  EXPECT_EQ(uniformDouble(0, 0), 0);
  EXPECT_EQ(uniformDouble(~0u, ~0u), 1 - 0x1p-53);
  EXPECT_EQ(uniformDouble(0x80000000, 0), 0.5);
  EXPECT_EQ(uniformFloat(0), 0);
  EXPECT_EQ(uniformFloat(~0u), 1 - 0x1p-24f);
}

TEST(RandomTest, NormalQuantilesAreThoseOfTheTables) {
  const std::pair<double, double> cases[] = {{1e-300, -37.047096299361201}, {1e-20, -9.2623400897984075},
                                             {1e-5, -4.2648907939228247},   {0.01, -2.3263478740408408},
                                             {0.3, -0.52440051270804078},   {0.5, 0},
                                             {0.999999, 4.7534243088170864}};
  for (const auto &[p, quantile] : cases)
    EXPECT_NEAR(normalQuantile(p), quantile, 1e-14) << p;
  // At all points between, the distribution function inverts it.
  for (double p = 0.0005; p < 1; p += 0.0005)
    EXPECT_NEAR(0.5 * std::erfc(-normalQuantile(p) / std::sqrt(2.0)), p, 1e-15);
  EXPECT_EQ(normalFloat(123), -normalFloat(~123u));
  EXPECT_NEAR(normalFloat(~0u), 6.3, 0.1);
  EXPECT_NEAR(normalDouble(~0u, ~0u), 8.2, 0.1);
  EXPECT_EQ(normalDouble(0, 0), -normalDouble(~0u, ~0u));
}

TEST(RandomTest, ManyNormalsAreEachThatOfItsWord) {
  std::vector<uint32_t> words;
  for (uint64_t word = 0; word <= ~0u; word += 0x3FFF1F)
    words.push_back(static_cast<uint32_t>(word));
  std::vector<float> values(words.size());
  normalFloats(words, values);
  for (auto [word, value] : llvm::zip(words, values))
    EXPECT_FLOAT_EQ(value, normalFloat(word)) << word;
}

ArrayRef<float> floats(const TensorView &view) {
  return {reinterpret_cast<const float *>(view.bytes.data()), view.bytes.size() / sizeof(float)};
}

TEST(RandomCheckpointTest, ElementsAreThoseOfAnIndependentComputation) {
  // Computed by a Python program with its own Philox, hashlib's SHA-256 and statistics.NormalDist; 12 layers, seed 42.
  struct Case {
    StringRef name;
    size_t index;
    float value;
  };
  const Case cases[] = {
      {"wte.weight", 0, 0.0252758674f},
      {"wte.weight", 70001, -0.00611595809f},
      {"wpe.weight", 3, 0.00766729377f},
      {"h.3.ln_1.weight", 5, 0.986355066f},
      {"ln_f.weight", 0, 1.0316447f},
      {"h.0.ln_2.bias", 1, 0.00343993516f},
      {"h.0.attn.c_proj.weight", 2, 0.0035269123f},
      {"h.0.attn.c_proj.bias", 2, -0.0158541556f},
  };
  RandomCheckpoint weights(/*seed=*/42, /*layers=*/12);
  for (const Case &c : cases) {
    TensorView view = unwrap(weights.tensor(c.name, {300, 239}));
    ASSERT_EQ(view.bytes.size(), 300u * 239 * 4);
    EXPECT_FLOAT_EQ(floats(view)[c.index], c.value) << c.name.str();
  }
}

TEST(RandomCheckpointTest, DependsOnSeedAndNameOnly) {
  auto bytesOf = [](uint64_t seed, StringRef name, ArrayRef<int64_t> shape) {
    TensorView view = unwrap(RandomCheckpoint(seed, 2).tensor(name, shape));
    EXPECT_EQ(view.shape, TensorShape(shape));
    EXPECT_EQ(view.dtype, DType::F32);
    return view.bytes.vec();
  };
  std::vector<uint8_t> bytes = bytesOf(1, "wte.weight", {131, 1009});
  EXPECT_EQ(bytesOf(1, "transformer.wte.weight", {1009, 131}), bytes);
  EXPECT_NE(bytesOf(2, "wte.weight", {131, 1009}), bytes);
  EXPECT_NE(bytesOf(1, "h.0.attn.c_attn.weight", {131, 1009}), bytes);
  // A shorter tensor is a prefix of a longer one.
  std::vector<uint8_t> prefix = bytesOf(1, "wte.weight", {70001});
  EXPECT_TRUE(std::equal(prefix.begin(), prefix.end(), bytes.begin()));
  EXPECT_TRUE(bytesOf(1, "wte.weight", {0, 5}).empty());
}

TEST(RandomCheckpointTest, MomentsAreThoseOfTheDistribution) {
  TensorView view = unwrap(RandomCheckpoint(7, 12).tensor("wte.weight", {1000, 1000}));
  double sum = 0, squares = 0;
  for (float x : floats(view)) {
    sum += x / 0.02;
    squares += x / 0.02 * (x / 0.02);
  }
  EXPECT_NEAR(sum / 1e6, 0, 0.005);
  EXPECT_NEAR(squares / 1e6, 1, 0.01);
}

TEST(RandomCheckpointTest, TheEmbeddingIsTied) {
  EXPECT_FALSE(RandomCheckpoint(1, 1).has("lm_head.weight"));
  EXPECT_TRUE(RandomCheckpoint(1, 1).has("wte.weight"));
  EXPECT_EQ(messageOf(RandomCheckpoint(1, 1).tensor("wte.weight", {1 << 30, 1 << 30})),
            "error: tensor 'wte.weight': expected at most 2^40 elements, got shape [1073741824,1073741824]\n");
}

} // namespace
} // namespace kiln
