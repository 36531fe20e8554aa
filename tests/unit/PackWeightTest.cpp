#include "PackSupport.h"

#include <cmath>
#include <cstring>
#include <limits>

namespace kiln {
namespace {

constexpr DType floatTypes[] = {DType::F32, DType::F16, DType::BF16};

float load(DType dtype, const uint8_t *from) {
  if (dtype == DType::F32) {
    float value;
    std::memcpy(&value, from, 4);
    return value;
  }
  uint16_t bits;
  std::memcpy(&bits, from, 2);
  return dtype == DType::F16 ? fromF16(bits) : fromBF16(bits);
}

/// Integers of 8 bits and both signs, exact in all three types.
std::vector<float> numbered(int64_t count) {
  std::vector<float> values(count);
  for (int64_t i = 0; i < count; ++i)
    values[i] = static_cast<float>(i % 255 + 1) * (i % 2 ? -1 : 1);
  return values;
}

/// Packs a tensor; a matrix from either order of its elements, with the same result.
std::vector<uint8_t> pack(const WeightRecipe &recipe, DType from, ArrayRef<float> values) {
  // One byte off, as a tensor in a file may be.
  std::vector<uint8_t> bytes = store(from, values);
  bytes.insert(bytes.begin(), 0xEE);
  TensorView view{from, recipe.sourceShape, ArrayRef(bytes).drop_front(), nullptr};
  std::vector<uint8_t> packed = packViews(recipe, view);
  if (recipe.sourceShape.size() == 2) {
    std::vector<uint8_t> turned = store(from, transposed(recipe.sourceShape, values));
    EXPECT_EQ(packViews(recipe, TensorView{from, recipe.sourceShape, turned, nullptr, /*isTransposed=*/true}), packed);
  }
  return packed;
}

TEST(PackWeightTest, MatricesOfManySizesInAllTypes) {
  const std::pair<int64_t, int64_t> sizes[] = {{1, 1}, {3, 5}, {32, 32}, {33, 70}, {1, 257}, {257, 1}, {0, 4}};
  for (auto [rows, columns] : sizes)
    for (DType from : floatTypes)
      for (DType to : floatTypes)
        for (bool transpose : {false, true})
          for (int64_t padding : {0, 1, 37}) {
            std::vector<float> values = numbered(rows * columns);
            int64_t outRows = transpose ? columns : rows, outColumns = transpose ? rows : columns;
            WeightRecipe recipe{
                "w", {rows, columns}, transpose, padding > 0, {outRows + padding, outColumns + 2 * padding}, to};
            std::vector<uint8_t> packed = pack(recipe, from, values);
            for (int64_t r = 0; r < recipe.shape[0]; ++r)
              for (int64_t c = 0; c < recipe.shape[1]; ++c) {
                bool inside = r < outRows && c < outColumns;
                float wanted = !inside ? 0 : transpose ? values[c * columns + r] : values[r * columns + c];
                ASSERT_EQ(load(to, &packed[(r * recipe.shape[1] + c) * dtypeSize(to)]), wanted)
                    << rows << 'x' << columns << " at " << r << ',' << c;
              }
          }
}

TEST(PackWeightTest, RowsInPartsAreTheWhole) {
  constexpr int64_t rows = 150, columns = 201;
  std::vector<uint8_t> bytes = store(DType::F32, numbered(rows * columns));
  TensorView view{DType::F32, {rows, columns}, bytes, nullptr};
  for (bool transpose : {false, true}) {
    TensorShape shape = transpose ? TensorShape{columns + 7, rows + 2} : TensorShape{rows + 7, columns + 2};
    WeightRecipe recipe{"w", {rows, columns}, transpose, true, {shape[0], shape[1]}, DType::BF16};
    std::vector<uint8_t> whole(unwrap(packedSize(recipe)), 0xCC), parts(whole.size(), 0xAA);
    expectSuccess(packWeight(recipe, view, whole));
    PackedRows packed = unwrap(packedRows(recipe));
    EXPECT_EQ(packed.count * packed.bytes, static_cast<int64_t>(whole.size()));
    for (int64_t first = 0; first < packed.count; first += 70) {
      int64_t last = std::min(first + 70, packed.count);
      MutableArrayRef<uint8_t> part(&parts[first * packed.bytes], (last - first) * packed.bytes);
      expectSuccess(packWeightRows(recipe, view, first, last, part));
    }
    EXPECT_EQ(parts, whole);
  }
}

TEST(PackWeightTest, LargeEnoughForSeveralThreads) {
  constexpr int64_t rows = 1009, columns = 513;
  std::vector<float> values = numbered(rows * columns);
  for (bool transpose : {false, true}) {
    WeightRecipe recipe{"w", {rows, columns}, transpose, true, {1024, 1024}, DType::BF16};
    std::vector<uint8_t> packed = pack(recipe, DType::F32, values);
    for (int64_t r = 0; r < 1024; ++r)
      for (int64_t c = 0; c < 1024; ++c) {
        int64_t row = transpose ? c : r, column = transpose ? r : c;
        float wanted = row < rows && column < columns ? values[row * columns + column] : 0;
        ASSERT_EQ(load(DType::BF16, &packed[(r * 1024 + c) * 2]), wanted) << r << ',' << c;
      }
  }
}

TEST(PackWeightTest, OtherRanks) {
  WeightRecipe vector{"b", {5}, false, true, {8}, DType::F16};
  EXPECT_EQ(pack(vector, DType::F32, {1, 2, 3, 4, 5}), store(DType::F16, {1, 2, 3, 4, 5, 0, 0, 0}));
  WeightRecipe scalar{"s", {}, false, false, {}, DType::BF16};
  EXPECT_EQ(pack(scalar, DType::F32, {1.5}), store(DType::BF16, {1.5}));
  WeightRecipe cube{"c", {2, 1, 2}, false, true, {3, 2, 3}, DType::F32};
  EXPECT_EQ(pack(cube, DType::F32, {1, 2, 3, 4}),
            store(DType::F32, {1, 2, 0, 0, 0, 0, 3, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}));
}

//===----------------------------------------------------------------------===//
// Recipes of several tensors
//===----------------------------------------------------------------------===//

std::vector<uint8_t> packAll(const WeightRecipe &recipe, const Tensors &tensors) {
  std::vector<uint8_t> packed = packViews(recipe, tensors.views);
  EXPECT_EQ(packViews(recipe, tensors.turnedViews), packed);
  return packed;
}

TEST(PackWeightTest, ScalesRowsOfTheSource) {
  Tensors tensors;
  tensors.add(DType::BF16, {2, 3}, {1, 2, 3, 4, 5, 6});
  tensors.add(DType::F32, {2}, {10, -1});
  WeightRecipe plain{.source = "w", .sourceShape = {2, 3}, .shape = {2, 3}, .dtype = DType::F32, .scale = "g"};
  EXPECT_EQ(packAll(plain, tensors), store(DType::F32, {10, 20, 30, -4, -5, -6}));
  WeightRecipe all{.source = "w",
                   .sourceShape = {2, 3},
                   .transpose = true,
                   .pad = true,
                   .shape = {4, 3},
                   .dtype = DType::F16,
                   .scale = "g"};
  EXPECT_EQ(packAll(all, tensors), store(DType::F16, {10, -4, 0, 20, -5, 0, 30, -6, 0, 0, 0, 0}));
}

TEST(PackWeightTest, RoundsAScaledElementOnce) {
  // In bf16, of 8 bits, the element would be rounded down to 1 before the product, and the product up to 1 + 2^-7.
  Tensors tensors;
  tensors.add(DType::F32, {1, 1}, {0x1.00fp0f});
  tensors.add(DType::F32, {1}, {0x1.000002p0f});
  WeightRecipe recipe{.source = "w", .sourceShape = {1, 1}, .shape = {1, 1}, .dtype = DType::BF16, .scale = "g"};
  EXPECT_EQ(packAll(recipe, tensors), store(DType::BF16, {1.0F}));
  tensors.views[1].bytes = tensors.turnedViews[1].bytes = tensors.bytes[1] = store(DType::F32, {0x1.004p0f});
  EXPECT_EQ(packAll(recipe, tensors), store(DType::BF16, {0x1.02p0f}));
}

TEST(PackWeightTest, AddsAProductInDoublePrecision) {
  Tensors tensors;
  tensors.add(DType::F32, {2}, {1, 0.5F});
  tensors.add(DType::F32, {3}, {0x1p30f, 1, 0x1p30f});
  tensors.add(DType::F16, {3, 2}, {1, 0.5F, 3, 4, -1, -0.5F});
  WeightRecipe recipe{.source = "c",
                      .sourceShape = {2},
                      .pad = true,
                      .shape = {3},
                      .dtype = DType::F32,
                      .add = WeightRecipe::Product{"b", "w", {3, 2}}};
  EXPECT_EQ(packAll(recipe, tensors), store(DType::F32, {4, 4.5F, 0}));
}

TEST(PackWeightTest, SumsRoundedColumns) {
  // 1 + 2^-9 is 1 in bf16.
  Tensors tensors;
  tensors.add(DType::F32, {3, 2}, {0x1.008p0f, 1, 2, 0x1.008p1f, -1, 3});
  WeightRecipe recipe{.source = "w", .sourceShape = {3, 2}, .shape = {2}, .dtype = DType::F32, .sum = DType::BF16};
  EXPECT_EQ(packAll(recipe, tensors), store(DType::F32, {2, 6}));
  recipe.sum = DType::F32;
  EXPECT_EQ(packAll(recipe, tensors), store(DType::F32, {0x1.004p1f, 0x1.804p2f}));
  recipe.scale = "g";
  tensors.add(DType::F32, {3}, {1, 2, 4});
  recipe.sum = DType::BF16;
  EXPECT_EQ(packAll(recipe, tensors), store(DType::F32, {1, 17}));
}

/// The steps of many threads give what one thread would.
TEST(PackWeightTest, SumsOfManyColumns) {
  constexpr int64_t rows = 37, columns = 1000;
  Tensors tensors;
  tensors.add(DType::BF16, {rows, columns}, numbered(rows * columns));
  WeightRecipe recipe{
      .source = "w", .sourceShape = {rows, columns}, .shape = {columns}, .dtype = DType::F32, .sum = DType::BF16};
  std::vector<float> values = numbered(rows * columns), sums(columns);
  for (int64_t i = 0; i < rows * columns; ++i)
    sums[i % columns] += values[i];
  EXPECT_EQ(packAll(recipe, tensors), store(DType::F32, sums));
}

TEST(PackWeightTest, EveryHalfConvertsAsItsValue) {
  for (DType from : {DType::F16, DType::BF16}) {
    std::vector<uint8_t> bytes;
    for (uint32_t bits = 0; bits < 0x10000; ++bits) {
      bytes.push_back(static_cast<uint8_t>(bits));
      bytes.push_back(static_cast<uint8_t>(bits >> 8));
    }
    TensorView view{from, {0x10000}, bytes, nullptr};
    for (DType to : floatTypes) {
      std::vector<uint8_t> packed(0x10000 * dtypeSize(to));
      expectSuccess(packWeight({"w", {0x10000}, false, false, {0x10000}, to}, view, packed));
      if (from == to) {
        EXPECT_EQ(packed, bytes);
      }
      for (uint32_t bits = 0; bits < 0x10000 && from != to; ++bits) {
        float value = load(from, &bytes[bits * 2]);
        float converted = load(to, &packed[bits * dtypeSize(to)]);
        float wanted = to == DType::F32 ? value : to == DType::F16 ? fromF16(toF16(value)) : fromBF16(toBF16(value));
        ASSERT_TRUE(converted == wanted || (std::isnan(converted) && std::isnan(value))) << bits;
      }
    }
  }
}

TEST(PackWeightTest, RoundsToNearestEven) {
  float infinity = std::numeric_limits<float>::infinity();
  const std::pair<float, float> bf16[] = {{0x1.01p0f, 0x1.00p0f},
                                          {0x1.03p0f, 0x1.04p0f},
                                          {0x1.010002p0f, 0x1.02p0f},
                                          {0x1.00fffep0f, 1.0f},
                                          {-0x1.03p0f, -0x1.04p0f},
                                          {0x1.fffffep127f, infinity},
                                          {-0.0f, -0.0f},
                                          {0x1p-140f, 0}};
  for (const auto &[value, wanted] : bf16)
    EXPECT_EQ(load(DType::BF16, pack({"w", {1}, false, false, {1}, DType::BF16}, DType::F32, value).data()), wanted);
  const std::pair<float, float> f16[] = {{0x1.002p0f, 0x1.000p0f}, {0x1.006p0f, 0x1.008p0f}, {65504, 65504},
                                         {65519.996f, 65504},      {65520, infinity},        {0x1p-25f, 0},
                                         {0x1.8p-25f, 0x1p-24f},   {0x1.8p-24f, 0x1p-23f}};
  for (const auto &[value, wanted] : f16)
    EXPECT_EQ(load(DType::F16, pack({"w", {1}, false, false, {1}, DType::F16}, DType::F32, value).data()), wanted);
}

TEST(PackWeightTest, BadRecipesAndTensors) {
  auto sizeError = [](WeightRecipe recipe) { return messageOf(packedSize(recipe)); };
  EXPECT_EQ(sizeError({"w", {2, 3}, true, false, {2, 3}, DType::F32}),
            "error: weight 'w': expected a packed shape of [3,2], got [2,3]\n");
  EXPECT_EQ(sizeError({"w", {2, 3}, false, true, {4, 2}, DType::F32}),
            "error: weight 'w': expected a packed shape of at least [2,3], got [4,2]\n");
  EXPECT_EQ(sizeError({"w", {2}, false, true, {2, 2}, DType::F32}),
            "error: weight 'w': expected a packed shape of at least [2], got [2,2]\n");
  EXPECT_EQ(sizeError({"w", {2}, true, false, {2}, DType::F32}),
            "error: weight 'w': expected a matrix to transpose, got shape [2]\n");
  EXPECT_EQ(sizeError({"w", {2}, false, false, {2}, DType::I32}),
            "error: weight 'w': expected to pack to a float type, got i32\n");

  EXPECT_EQ(sizeError({.source = "w", .sourceShape = {2}, .shape = {2}, .scale = "g"}),
            "error: weight 'w': expected a matrix to scale, got shape [2]\n");
  EXPECT_EQ(sizeError({.source = "w", .sourceShape = {2, 3}, .shape = {2}, .sum = DType::F32}),
            "error: weight 'w': expected a packed shape of [3], got [2]\n");
  constexpr int64_t big = int64_t(1) << 62;
  EXPECT_EQ(
      sizeError({.source = "c", .sourceShape = {3}, .shape = {3}, .add = WeightRecipe::Product{"b", "w", {big, 3}}}),
      "error: weight 'c': expected a size that fits in 63 bits, got shape [4611686018427387904,3]\n");

  WeightRecipe recipe{"w", {2}, false, false, {2}, DType::F32};
  std::vector<uint8_t> bytes(8);
  TensorView view{DType::F32, {2}, bytes, nullptr};
  EXPECT_EQ(messageOf(packWeight(recipe, view, MutableArrayRef(bytes).drop_back())),
            "error: weight 'w': expected a destination of 8 bytes, got 7\n");
  view.shape = {1, 2};
  EXPECT_EQ(messageOf(packWeight(recipe, view, bytes)),
            "error: weight 'w': expected a float tensor of shape [2], got f32[1,2]\n");
  view = {DType::I32, {2}, bytes, nullptr};
  EXPECT_EQ(messageOf(packWeight(recipe, view, bytes)),
            "error: weight 'w': expected a float tensor of shape [2], got i32[2]\n");
  WeightRecipe scaled{.source = "w", .sourceShape = {2, 1}, .shape = {2, 1}, .scale = "g"};
  TensorView matrix{DType::F32, {2, 1}, bytes, nullptr};
  view = {DType::F32, {1}, ArrayRef(bytes).take_front(4), nullptr};
  EXPECT_EQ(messageOf(packWeight(scaled, {matrix, view}, bytes)),
            "error: weight 'g': expected a float tensor of shape [2], got f32[1]\n");
}

} // namespace
} // namespace kiln
