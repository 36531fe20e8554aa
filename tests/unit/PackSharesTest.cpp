// Shares of ranks.
#include "PackSupport.h"

namespace kiln {
namespace {

/// A source of the tensors of one recipe.
class TensorsOfRecipe : public WeightSource {
public:
  TensorsOfRecipe(const WeightRecipe &recipe, ArrayRef<TensorView> views) : tensors(recipe.tensors()), views(views) {}

  bool has(StringRef name) const override { return true; }
  Expected<TensorView> tensor(StringRef name, ArrayRef<int64_t> shape) const override {
    for (const auto &[tensor, view] : llvm::zip(tensors, views))
      if (tensor.name == name && ArrayRef<int64_t>(view.shape) == shape)
        return view;
    return makeError("no tensor '" + name + "'");
  }

private:
  SmallVector<WeightRecipe::Tensor, 3> tensors;
  ArrayRef<TensorView> views;
};

/// What a rank packs, from either order of matrices. Checks that it holds its shares of the tensors only, of so many
/// elements.
std::vector<uint8_t> packShare(const WeightRecipe &recipe, const Tensors &tensors, int64_t rank,
                               ArrayRef<int64_t> elements) {
  std::vector<uint8_t> packed;
  for (const auto &views : {tensors.views, tensors.turnedViews}) {
    RecipeTensors shares = unwrap(openTensors(recipe, TensorsOfRecipe(recipe, views), rank));
    for (const auto &[share, count] : llvm::zip_equal(shares, elements))
      EXPECT_EQ(static_cast<int64_t>(share.bytes.size()), count * dtypeSize(share.dtype));
    std::vector<uint8_t> again = packViews(recipe, shares);
    EXPECT_TRUE(packed.empty() || packed == again);
    packed = again;
  }
  return packed;
}

TEST(PackWeightTest, RanksTakeColumnsOfEachPart) {
  // Two parts of three units of one column: rank 1 fills one of its two units.
  Tensors tensors;
  tensors.add(DType::F32, {2, 6}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
  WeightRecipe recipe{.source = "w",
                      .sourceShape = {2, 6},
                      .shape = {2, 4},
                      .dtype = DType::F32,
                      .split = RankSplit{.ranks = 2, .parts = 2}};
  EXPECT_EQ(packShare(recipe, tensors, 0, {8}), store(DType::F32, {1, 2, 4, 5, 7, 8, 10, 11}));
  EXPECT_EQ(packShare(recipe, tensors, 1, {8}), store(DType::F32, {3, 0, 6, 0, 9, 0, 12, 0}));
  recipe.scale = "g";
  recipe.transpose = recipe.pad = true;
  recipe.shape = {5, 2};
  recipe.dtype = DType::BF16;
  tensors.add(DType::F32, {2}, {10, 2});
  EXPECT_EQ(packShare(recipe, tensors, 1, {8, 2}), store(DType::BF16, {30, 18, 0, 0, 60, 24, 0, 0, 0, 0}));
  recipe.transpose = recipe.pad = false;
  recipe.shape = {4};
  recipe.sum = DType::F32;
  EXPECT_EQ(packShare(recipe, tensors, 1, {8, 2}), store(DType::BF16, {48, 0, 84, 0}));
}

TEST(PackWeightTest, RanksTakeRows) {
  Tensors tensors;
  tensors.add(DType::F16, {3, 2}, {1, 2, 3, 4, 5, 6});
  tensors.add(DType::F32, {3}, {1, 10, 100});
  WeightRecipe recipe{.source = "w",
                      .sourceShape = {3, 2},
                      .shape = {2, 2},
                      .dtype = DType::F32,
                      .split = RankSplit{.ranks = 2, .ofRows = true},
                      .scale = "g"};
  EXPECT_EQ(packShare(recipe, tensors, 0, {4, 2}), store(DType::F32, {1, 2, 30, 40}));
  EXPECT_EQ(packShare(recipe, tensors, 1, {4, 2}), store(DType::F32, {500, 600, 0, 0}));
}

TEST(PackWeightTest, RanksTakeElementsAndColumnsOfAProduct) {
  Tensors tensors;
  tensors.add(DType::F32, {3}, {1, 2, 3});
  tensors.add(DType::F32, {2}, {1, 2});
  tensors.add(DType::F32, {2, 3}, {10, 20, 30, 40, 50, 60});
  WeightRecipe recipe{.source = "c",
                      .sourceShape = {3},
                      .shape = {2},
                      .dtype = DType::F32,
                      .split = RankSplit{.ranks = 2},
                      .add = WeightRecipe::Product{"b", "w", {2, 3}}};
  EXPECT_EQ(packShare(recipe, tensors, 0, {2, 2, 4}), store(DType::F32, {91, 122}));
  EXPECT_EQ(packShare(recipe, tensors, 1, {2, 2, 4}), store(DType::F32, {153, 0}));
}

TEST(PackWeightTest, SplitsThatDoNotFit) {
  TensorView view{DType::F32, {2}, {}, nullptr};
  auto problem = [&](const WeightRecipe &recipe) {
    EXPECT_EQ(messageOf(packedSize(recipe)), messageOf(openTensors(recipe, TensorsOfRecipe(recipe, view))));
    return messageOf(packedSize(recipe));
  };
  EXPECT_EQ(problem({.source = "w", .sourceShape = {2}, .shape = {1}, .split = RankSplit{.ranks = 3}}),
            "error: weight 'w': expected at least a unit for each of 3 ranks, got 2\n");
  EXPECT_EQ(problem({.source = "w", .sourceShape = {2}, .shape = {1}, .split = RankSplit{.ofRows = true}}),
            "error: weight 'w': expected a matrix to split by rows, got shape [2]\n");
  EXPECT_EQ(problem({.source = "w", .sourceShape = {2, 2, 2}, .shape = {2, 2, 1}, .split = RankSplit{}}),
            "error: weight 'w': expected a matrix or a vector to split, got shape [2,2,2]\n");
}

} // namespace
} // namespace kiln
