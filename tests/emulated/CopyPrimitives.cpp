// Meaning of barriers in shared memory, of the copies that arrive at them, and of products of what they bring, checked
// under every schedule. All kernels run with checked accesses too: they have no races.

#include "emulated/PrimitivesTest.h"

#include "device/tensor_copy.cuh"

#include <cmath>
#include <numeric>
#include <random>

namespace kiln {
namespace {

struct CopyPrimitives : EmulatedTest {
  template <class... Args>
  void run(StringRef kernel, Dim3 grid, uint32_t block, const LaunchOptions &options, bool isChecked,
           const Args &...args) {
    Error error = launch(kernelLibrary("copies", isChecked).kernel(kernel), grid, block, options, args...);
    EXPECT_EQ(printed(std::move(error)), "");
  }

  void forEachScheduleAndCheck(function_ref<void(const LaunchOptions &, bool)> check) {
    for (bool isChecked : {false, true})
      forEachSchedule([&](const LaunchOptions &options) { check(options, isChecked); });
  }

  /// A map of rows of `cols` elements of 16 bits, with boxes of 64 by `boxRows`.
  static TensorMap rowsOf(const void *data, u32 rows, u32 cols, u32 boxRows) {
    TensorMap map;
    map.data = data;
    map.strides[0] = cols * 2;
    map.extents[0] = cols, map.extents[1] = rows;
    map.box[0] = 64, map.box[1] = boxRows;
    map.rank = 2;
    map.elementBytes = 2;
    return map;
  }
};

TEST_F(CopyPrimitives, BarriersHandOverSharedMemory) {
  forEachScheduleAndCheck([&](const LaunchOptions &options, bool isChecked) {
    auto out = buffer<uint32_t>(3 * 128);
    run("barrier_rounds", {3}, 128, options, isChecked, out, uint32_t{5});
    for (uint32_t i = 0; i < out.size; ++i)
      EXPECT_EQ(out[i], i / 128 * 128 + 127 - i % 128 + 5);
    auto words = buffer<uint32_t>(4 * 96);
    run("handed_to_several_warps", {1}, 128, options, isChecked, words, uint32_t{4});
    for (uint32_t i = 0; i < words.size; ++i)
      EXPECT_EQ(words[i], i / 96 * 10);
  });
}

TEST_F(CopyPrimitives, PhasesOfWhichAThreadKnowsByAnotherBarrierMayBeSkipped) {
  forEachScheduleAndCheck([&](const LaunchOptions &options, bool isChecked) {
    auto out = buffer<uint32_t>(40);
    run("skipped_phases", {1}, 96, options, isChecked, out);
    for (uint32_t i = 0; i < out.size; ++i)
      EXPECT_EQ(out[i], i * i);
  });
}

constexpr uint32_t boxWords = 24 * 32;

TEST_F(CopyPrimitives, BoxesOfAMatrix) {
  constexpr u32 rows = 40, cols = 200;
  std::vector<uint16_t> in(rows * cols);
  std::iota(in.begin(), in.end(), 1);
  forEachSchedule([&](const LaunchOptions &options) {
    auto matrix = bufferOf(in);
    for (auto [x, y] : {std::pair(64, 8), {-16, -3}, {192, 39}, {0, 16}}) {
      auto out = buffer<uint32_t>(boxWords), early = buffer<uint32_t>(boxWords);
      // Checked accesses may not read the target early.
      run("copy_matrix", {1}, 64, options, /*isChecked=*/false, rowsOf(matrix.data, rows, cols, 24), i32{x}, i32{y},
          out, early);
      EXPECT_EQ(early.copy(), std::vector<uint32_t>(boxWords, kEmulatedPoison));
      auto *elements = reinterpret_cast<const uint16_t *>(out.data);
      for (int i = 0; i < 24 * 64; ++i) {
        const int row = y + i / 64, col = x + i % 64;
        const bool isInside = row >= 0 && row < int(rows) && col >= 0 && col < int(cols);
        ASSERT_EQ(elements[i], isInside ? in[row * cols + col] : 0) << row << ", " << col;
      }
    }
  });
}

TEST_F(CopyPrimitives, BoxesOfFiveDimensions) {
  TensorMap map;
  const std::vector<int> extents = {40, 3, 4, 2, 3}, box = {32, 2, 3, 1, 4}, at = {-8, 1, 2, 0, -1};
  std::vector<float> in(40 * 3 * 4 * 2 * 3);
  std::iota(in.begin(), in.end(), 1.0f);
  std::copy(extents.begin(), extents.end(), map.extents);
  std::copy(box.begin(), box.end(), map.box);
  map.rank = 5;
  map.elementBytes = 4;
  for (int d = 1; d < 5; ++d)
    map.strides[d - 1] = (d == 1 ? 4 : map.strides[d - 2]) * extents[d - 1];
  forEachSchedule([&](const LaunchOptions &options) {
    auto tensor = bufferOf(in);
    map.data = tensor.data;
    auto out = buffer<float>(boxWords), early = buffer<float>(boxWords);
    run("copy_tensor", {1}, 64, options, /*isChecked=*/false, map, out, early);
    for (int i = 0; i < 24 * 32; ++i) {
      int place = i, offset = 0, scale = 1;
      bool isInside = true;
      for (int d = 0; d < 5; ++d) {
        const int coordinate = at[d] + place % box[d];
        place /= box[d];
        isInside &= coordinate >= 0 && coordinate < extents[d];
        offset += coordinate * scale;
        scale *= extents[d];
      }
      ASSERT_EQ(out[i], isInside ? in[offset] : 0.0f) << i;
    }
  });
}

TEST_F(CopyPrimitives, Bytes) {
  forEachSchedule([&](const LaunchOptions &options) {
    for (uint32_t count : {4, 100, 256}) {
      std::vector<uint32_t> in(count);
      std::iota(in.begin(), in.end(), 1);
      auto words = bufferOf(in), out = buffer<uint32_t>(count), early = buffer<uint32_t>(count);
      run("copy_bytes", {1}, 64, options, /*isChecked=*/false, words, count, out, early);
      EXPECT_EQ(early.copy(), std::vector<uint32_t>(count, kEmulatedPoison));
      EXPECT_EQ(out.copy(), in);
    }
  });
}

/// Rows of small random integers, whose products are exact.
struct SmallRows {
  std::vector<float> values;
  std::vector<uint16_t> stored;

  SmallRows(size_t size, uint16_t (*encode)(float), std::mt19937 &generator) {
    for (size_t i = 0; i < size; ++i) {
      values.push_back(static_cast<float>(static_cast<int>(generator() % 9) - 4));
      stored.push_back(encode(values.back()));
    }
  }
};

TEST_F(CopyPrimitives, ProductsOfStagesThatAreFilledAgain) {
  constexpr u32 rows = 128, steps = 7, depth = steps * 64;
  auto expectProduct = [&](StringRef kernel, uint16_t (*encode)(float), u32 cols, const LaunchOptions &options,
                           bool isChecked) {
    dynamicBytes = 3 * (rows + cols) * 128 + 1024;
    std::mt19937 generator(cols);
    const SmallRows a(rows * depth, encode, generator), b(cols * depth, encode, generator);
    std::vector<float> product(2 * rows * cols);
    for (u32 row = 0; row < 2 * rows; ++row)
      for (u32 col = 0; col < cols; ++col)
        for (u32 k = row < rows ? 0 : 64; k < depth; ++k)
          product[row * cols + col] += a.values[row % rows * depth + k] * b.values[col * depth + k];
    auto left = bufferOf(a.stored), right = bufferOf(b.stored);
    auto out = buffer<float>(2 * rows * cols), early = buffer<float>(256);
    run(kernel, {1}, 384, options, isChecked, rowsOf(left.data, rows, depth, rows),
        rowsOf(right.data, cols, depth, cols), u32{steps}, out, early);
    EXPECT_EQ(out.copy(), product);
    EXPECT_TRUE(llvm::all_of(early.copy(), [](float x) { return std::isnan(x); }));
  };
  forEachScheduleAndCheck([&](const LaunchOptions &options, bool isChecked) {
    if (options.threads == 1) // the launch has one block
      expectProduct("ring_bf16_32", toBF16, 32, options, isChecked);
  });
  expectProduct("ring_f16_160", toF16, 160, {}, false);
  expectProduct("ring_f16_160", toF16, 160, {Schedule::Reversed}, true);
}

} // namespace
} // namespace kiln
