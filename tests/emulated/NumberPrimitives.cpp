// Meaning of the primitives for numbers: types, vectors and functions.

#include "emulated/PrimitivesTest.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>

namespace kiln {
namespace {

struct NumberPrimitives : PrimitivesTest {
  NumberPrimitives() : PrimitivesTest("numbers") {}
};

constexpr float nan = std::numeric_limits<float>::quiet_NaN();
constexpr float inf = std::numeric_limits<float>::infinity();

//===----------------------------------------------------------------------===//
// numeric.cuh
//===----------------------------------------------------------------------===//

/// Floats around every decision of rounding: every 16-bit value of either type, its neighbours, the middle between it
/// and the next value, and the neighbours of the middle.
std::vector<float> roundingCases() {
  std::vector<float> cases;
  auto around = [&](float value) {
    for (float x : {value, std::nextafter(value, inf), std::nextafter(value, -inf)})
      cases.push_back(x);
  };
  for (uint32_t bits = 0; bits < 0x10000; ++bits)
    for (auto decode : {fromBF16, fromF16}) {
      float value = decode(static_cast<uint16_t>(bits)), next = decode(static_cast<uint16_t>(bits + 1));
      if (std::isnan(value))
        continue;
      around(value);
      if (std::isfinite(value) && std::isfinite(next))
        around(static_cast<float>((static_cast<double>(value) + next) / 2));
    }
  for (float value : {65520.0f, -65520.0f, nan, -nan, 3.4e38f, 1e-45f})
    around(value);
  cases.resize(llvm::alignTo(cases.size(), 128));
  return cases;
}

void expectRoundTrip(const std::vector<float> &in, const uint16_t *stored, const float *back, uint16_t (*encode)(float),
                     float (*decode)(uint16_t)) {
  size_t wrong = 0;
  for (size_t i = 0; i < in.size(); ++i) {
    uint16_t expected = std::isnan(in[i]) ? 0x7fff : encode(in[i]); // the GPU has one NaN
    bool backIsRight =
        std::isnan(in[i]) ? std::isnan(back[i]) : std::memcmp(&back[i], std::array{decode(expected)}.data(), 4) == 0;
    if ((stored[i] != expected || !backIsRight) && ++wrong < 10)
      ADD_FAILURE() << "of " << in[i] << ": expected " << expected << ", got " << stored[i] << ", back " << back[i];
  }
}

TEST_F(NumberPrimitives, FromFloatRoundsToNearestEvenAndToFloatIsExact) {
  std::vector<float> cases = roundingCases();
  auto in = bufferOf(cases);
  auto stored = buffer<uint16_t>(cases.size());
  auto back = buffer<float>(cases.size());
  uint32_t blocks = static_cast<uint32_t>(cases.size() / 128);
  run("round_trip_bf16", {blocks}, 128, {}, in, stored, back);
  expectRoundTrip(cases, stored.data, back.data, toBF16, fromBF16);
  run("round_trip_f16", {blocks}, 128, {}, in, stored, back);
  expectRoundTrip(cases, stored.data, back.data, toF16, fromF16);
}

TEST_F(NumberPrimitives, PairsHaveTheFirstValueInTheLowerHalf) {
  auto in = bufferOf<float>({1.5f, -2.25f});
  auto bf16Word = buffer<uint32_t>(1), f16Word = buffer<uint32_t>(1);
  auto back = buffer<float>(4);
  run("pairs", {1}, 1, {}, in, bf16Word, f16Word, back);
  EXPECT_EQ(bf16Word[0], toBF16(1.5f) | uint32_t{toBF16(-2.25f)} << 16);
  EXPECT_EQ(f16Word[0], toF16(1.5f) | uint32_t{toF16(-2.25f)} << 16);
  EXPECT_EQ(back.copy(), (std::vector<float>{1.5f, -2.25f, 1.5f, -2.25f}));
}

//===----------------------------------------------------------------------===//
// vec.cuh
//===----------------------------------------------------------------------===//

/// For widths 1, 2, 4, 8: V values, then at offset 8 their doubles; nothing else is touched.
template <class T> void expectCopied(ArrayRef<T> out, function_ref<float(T)> decode) {
  for (size_t width = 1, at = 0; width <= 8; width *= 2, at += 16)
    for (size_t i = 0; i < 8; ++i) {
      float plain = decode(out[at + i]), doubled = decode(out[at + 8 + i]);
      EXPECT_TRUE(i < width ? plain == static_cast<float>(i + 1) : std::isnan(plain)) << width << " " << i;
      EXPECT_TRUE(i < width ? doubled == static_cast<float>(2 * i + 2) : std::isnan(doubled)) << width << " " << i;
    }
}

TEST_F(NumberPrimitives, LoadsAndStoresMoveVElements) {
  std::vector<float> values = iota(8, 1);
  std::vector<uint16_t> bf16s, f16s;
  for (float value : values) {
    bf16s.push_back(toBF16(value));
    f16s.push_back(toF16(value));
  }
  auto floats = buffer<float>(64);
  run("copy_float", {1}, 1, {}, bufferOf(values), floats);
  expectCopied<float>(floats.copy(), [](float x) { return x; });
  auto halves = buffer<uint16_t>(64);
  run("copy_bf16", {1}, 1, {}, bufferOf(bf16s), halves);
  expectCopied<uint16_t>(halves.copy(), fromBF16);
  auto otherHalves = buffer<uint16_t>(64);
  run("copy_f16", {1}, 1, {}, bufferOf(f16s), otherHalves);
  expectCopied<uint16_t>(otherHalves.copy(), fromF16);
}

TEST_F(NumberPrimitives, VecArithmeticIsElementwise) {
  const std::vector<float> a = {1, 2, -3, 0.5f}, b = {4, 5, 6, -0.25f};
  std::vector<float> both = a;
  both.insert(both.end(), b.begin(), b.end());
  auto out = buffer<float>(66);
  run("arithmetic", {1}, 1, {}, bufferOf(both), out);
  float (*expected[])(float,
                      float) = {[](float x, float y) { return x + y; }, [](float x, float y) { return x - y; },
                                [](float x, float y) { return x * y; }, [](float x, float y) { return x / y; },
                                [](float x, float) { return x + 2; },   [](float x, float) { return x - 2; },
                                [](float x, float) { return x * 2; },   [](float x, float) { return x / 2; },
                                [](float x, float) { return 2 + x; },   [](float x, float) { return 2 - x; },
                                [](float x, float) { return 2 * x; },   [](float x, float) { return 2 / x; },
                                [](float x, float y) { return x + y; }, [](float x, float y) { return x * y; },
                                [](float x, float) { return x * x; },   [](float x, float y) { return x - 2 * y; }};
  for (size_t f = 0; f < std::size(expected); ++f)
    for (size_t i = 0; i < 4; ++i)
      EXPECT_EQ(out[4 * f + i], expected[f](a[i], b[i])) << "result " << f;
  EXPECT_EQ(out[64], 0.5f);
  EXPECT_EQ(out[65], 2.0f);
}

//===----------------------------------------------------------------------===//
// math.cuh
//===----------------------------------------------------------------------===//

TEST_F(NumberPrimitives, FunctionsAreAccurate) {
  std::vector<float> in = {0.0f, 1e-6f, 0.1f, 0.5f, 1.0f, 2.0f, 3.5f, 7.0f, 20.0f, 60.0f};
  for (size_t i = in.size(); i-- > 0;)
    in.push_back(-in[i]);
  in.resize(32, 1.0f);
  double (*expected[])(double) = {
      [](double x) { return std::exp(x); },
      [](double x) { return std::exp2(x); },
      [](double x) { return std::log(x); },
      [](double x) { return 1 / std::sqrt(x); },
      [](double x) { return std::tanh(x); },
      [](double x) { return std::erf(x); },
      [](double x) { return x * x + 0.5; },
      [](double x) { return std::min(x, 0.5); },
      [](double x) { return std::max(x, 0.5); },
      [](double x) { return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))); },
      [](double x) { return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0))); },
      [](double x) { return std::max(x, 0.0); },
      [](double x) { return 1 / x; }};
  constexpr size_t functions = std::size(expected);
  auto out = buffer<float>(2 * functions * 32);
  run("functions", {1}, 32, {}, bufferOf(in), out);
  for (size_t f = 0; f < functions; ++f)
    for (size_t i = 0; i < 32; ++i) {
      double right = expected[f](in[i]);
      float scalar = out[f * 32 + i], vector = out[(functions + f) * 32 + i];
      if (std::isnan(right)) {
        EXPECT_TRUE(std::isnan(scalar) && std::isnan(vector)) << "function " << f << " of " << in[i];
        continue;
      }
      if (std::isinf(right))
        EXPECT_EQ(scalar, right) << "function " << f << " of " << in[i];
      else
        EXPECT_NEAR(scalar, right, 2e-6 * std::abs(right) + 1e-7) << "function " << f << " of " << in[i];
      EXPECT_EQ(scalar, vector) << "function " << f << " of " << in[i];
    }
}

// The emulated device's tanh is exact, so this checks the formula. tests/kernels/simt/MathTest.cpp runs on GPUs, too.
TEST_F(NumberPrimitives, ApproximationsAreAsAccurateAsTheySay) {
  std::vector<float> in;
  for (int i = 0; i < 64; ++i)
    in.push_back(0.3f * static_cast<float>(i - 32));
  auto out = buffer<float>(4 * 64);
  run("approximations", {1}, 64, {}, bufferOf(in), out);
  for (size_t i = 0; i < 64; ++i) {
    const double x = in[i], tanh = std::tanh(x);
    const double gelu = 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    EXPECT_NEAR(out[i], tanh, 0x1p-11 * std::abs(tanh)) << "of " << x;
    EXPECT_NEAR(out[64 + i], gelu, 0x1p-12 * std::abs(x)) << "of " << x;
    EXPECT_EQ(out[128 + i], out[i]) << "of " << x;
    EXPECT_EQ(out[192 + i], out[64 + i]) << "of " << x;
  }
}

TEST_F(NumberPrimitives, Infinity) {
  auto out = buffer<float>(2);
  run("infinities", {1}, 1, {}, out);
  EXPECT_EQ(out.copy(), (std::vector<float>{inf, -inf}));
}

} // namespace
} // namespace kiln
