// Meaning of the primitives for tensor cores and of the copies that feed them, checked under every schedule.

#include "emulated/PrimitivesTest.h"

#include <cmath>
#include <cstring>
#include <numeric>
#include <random>

namespace kiln {
namespace {

struct TensorCorePrimitives : PrimitivesTest {
  TensorCorePrimitives() : PrimitivesTest("tensor_cores") {}
};

//===----------------------------------------------------------------------===//
// async_copy.cuh
//===----------------------------------------------------------------------===//

TEST_F(TensorCorePrimitives, AsyncCopiesArriveAtTheWaitForTheirGroup) {
  std::vector<uint32_t> in(512);
  std::iota(in.begin(), in.end(), 0x01020304u);
  std::vector<uint32_t> prefixes(in.begin(), in.begin() + 256); // expected results of copies of i % 17 bytes
  for (uint32_t i = 0; i < 64; ++i)
    std::memset(reinterpret_cast<char *>(&prefixes[4 * i]) + i % 17, 0, 16 - i % 17);
  forEachSchedule([&](const LaunchOptions &options) {
    auto out = buffer<uint32_t>(4 * 256);
    run("async_copies", {1}, 64, options, bufferOf(in), out);
    for (uint32_t i = 0; i < 256; ++i) {
      const uint32_t other = (63 - i / 4) * 4 + i % 4;
      EXPECT_EQ(out[i], kEmulatedPoison) << "nothing can be read before the wait";
      EXPECT_EQ(out[256 + i], prefixes[other]);
      EXPECT_EQ(out[512 + i], kEmulatedPoison) << "the second group is under way";
      EXPECT_EQ(out[768 + i], in[256 + other]);
    }
  });
}

//===----------------------------------------------------------------------===//
// tensor_core.cuh
//===----------------------------------------------------------------------===//

TEST_F(TensorCorePrimitives, MatrixLoadsGiveEveryLaneItsElements) {
  std::vector<uint16_t> in(4 * 64); // element (row, col) of matrix m is at 64 m + 8 row + col
  std::iota(in.begin(), in.end(), uint16_t{1000});
  forEachSchedule([&](const LaunchOptions &options) {
    auto plain = buffer<uint32_t>(128), transposed = buffer<uint32_t>(128);
    run("matrix_loads", {1}, 32, options, bufferOf(in), plain, transposed);
    for (uint32_t lane = 0; lane < 32; ++lane)
      for (uint32_t m = 0; m < 4; ++m) {
        auto element = [&](uint32_t row, uint32_t col) { return uint32_t{in[64 * m + 8 * row + col]}; };
        const uint32_t group = lane / 4, pair = lane % 4 * 2;
        EXPECT_EQ(plain[4 * lane + m], element(group, pair) | element(group, pair + 1) << 16);
        EXPECT_EQ(transposed[4 * lane + m], element(pair, group) | element(pair + 1, group) << 16);
      }
  });
}

/// Products of small random integers, which are exact. `encode` packs the operands; a row has `depth` elements.
template <class Stored>
void expectProducts(
    int depth, function_ref<Stored(float)> encode,
    function_ref<void(std::vector<uint32_t>, std::vector<uint32_t>, std::vector<float>, std::vector<float>)> check) {
  std::mt19937 generator(depth);
  auto small = [&](size_t size) {
    std::vector<float> values(size);
    for (float &value : values)
      value = static_cast<float>(static_cast<int>(generator() % 17) - 8);
    return values;
  };
  auto packed = [&](const std::vector<float> &values) {
    std::vector<Stored> stored;
    for (float value : values)
      stored.push_back(encode(value));
    std::vector<uint32_t> words(stored.size() * sizeof(Stored) / 4);
    std::memcpy(words.data(), stored.data(), words.size() * 4);
    return words;
  };
  const std::vector<float> a = small(16 * depth), b = small(8 * depth), before = small(16 * 8);
  std::vector<float> after = before;
  for (int row = 0; row < 16; ++row)
    for (int col = 0; col < 8; ++col)
      for (int k = 0; k < depth; ++k)
        after[row * 8 + col] += a[row * depth + k] * b[col * depth + k];
  check(packed(a), packed(b), before, after);
}

TEST_F(TensorCorePrimitives, TensorCoreProducts) {
  forEachSchedule([&](const LaunchOptions &options) {
    auto expectOf = [&](StringRef kernel) {
      return [&, kernel](std::vector<uint32_t> a, std::vector<uint32_t> b, std::vector<float> before,
                         std::vector<float> after) {
        auto sums = bufferOf(before);
        run(kernel, {1}, 32, options, bufferOf(a), bufferOf(b), sums);
        EXPECT_EQ(sums.copy(), after) << kernel.str();
      };
    };
    expectProducts<uint16_t>(16, toBF16, expectOf("multiply_bf16"));
    expectProducts<uint16_t>(16, toF16, expectOf("multiply_f16"));
    // tf32 takes the upper 19 bits of a float and ignores the rest.
    auto withTail = [](float value) {
      uint32_t bits;
      std::memcpy(&bits, &value, 4);
      return bits | 0x1fffu;
    };
    expectProducts<uint32_t>(8, withTail, expectOf("multiply_tf32"));
  });
}

/// To the nearest number of 11 bits, of two equally near the larger; NaN stays NaN.
TEST_F(TensorCorePrimitives, FactorsAreRoundedToTf32) {
  const std::pair<uint32_t, uint32_t> cases[] = {
      {0x3f800fff, 0x3f800000}, {0x3f801000, 0x3f802000}, {0xbf800fff, 0xbf800000}, {0xbf801000, 0xbf802000},
      {0x3fffffff, 0x40000000}, {0x00000000, 0x00000000}, {0x80000000, 0x80000000}, {0x7f7fffff, 0x7f800000},
      {0x7f800000, 0x7f800000}, {0xff800000, 0xff800000}, {0x7fffffff, 0x7fffe000}, {0xffffffff, 0xffffe000},
      {0x7fc00000, 0x7fc00000}, {0xffc00001, 0xffc00000}, {0x7f802000, 0x7f802000}, {0x7fffefff, 0x7fffe000}};
  std::vector<uint32_t> in(128), wanted(128);
  for (size_t i = 0; i < in.size(); ++i)
    std::tie(in[i], wanted[i]) = cases[i % std::size(cases)];
  auto out = buffer<uint32_t>(in.size());
  run("rounded_factors", {1}, 32, {}, bufferOf(in), out);
  EXPECT_EQ(out.copy(), wanted);
}

//===----------------------------------------------------------------------===//
// warpgroup.cuh
//===----------------------------------------------------------------------===//

/// Small random integers, so that products are exact, and their stored form.
struct SmallMatrix {
  std::vector<float> values;
  std::vector<uint16_t> stored;

  SmallMatrix(size_t size, uint16_t (*encode)(float), std::mt19937 &generator) {
    for (size_t i = 0; i < size; ++i) {
      values.push_back(static_cast<float>(static_cast<int>(generator() % 17) - 8));
      stored.push_back(encode(values.back()));
    }
  }
};

TEST_F(TensorCorePrimitives, WarpgroupProducts) {
  constexpr size_t rows = 64, cols = 80, depth = 16;
  dynamicBytes = cols * 128;
  auto expectProduct = [&](StringRef kernel, uint16_t (*encode)(float), const LaunchOptions &options) {
    std::mt19937 generator(1);
    const SmallMatrix a(rows * depth, encode, generator), b(depth * cols, encode, generator);
    std::vector<float> product(rows * cols), sums = iota(2 * rows * cols), after = sums;
    for (size_t row = 0; row < rows; ++row)
      for (size_t col = 0; col < cols; ++col)
        for (size_t k = 0; k < depth; ++k)
          product[row * cols + col] += a.values[row * depth + k] * b.values[k * cols + col];
    for (size_t i = 0; i < after.size(); ++i)
      after[i] += product[i % product.size()];
    auto added = bufferOf(sums), plain = buffer<float>(2 * rows * cols), early = buffer<float>(256);
    run(kernel, {1}, 256, options, bufferOf(a.stored), bufferOf(b.stored), added, plain, early);
    EXPECT_EQ(added.copy(), after);
    product.insert(product.end(), product.begin(), product.begin() + rows * cols);
    EXPECT_EQ(plain.copy(), product);
    EXPECT_TRUE(llvm::all_of(early.copy(), [](float x) { return std::isnan(x); }));
  };
  forEachSchedule([&](const LaunchOptions &options) {
    expectProduct("warpgroup_columns", toBF16, options);
    expectProduct("warpgroup_depth", toF16, options);
  });
}

} // namespace
} // namespace kiln
