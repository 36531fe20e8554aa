// gemv/wgmma_rows.cuh against a product in double, and its rows against themselves in other company.

#include "kernels/mma/Cases.h"
#include "kernels/mma/WarpsLaunch.h"
#include "kernels/wgmma/ProductTest.h"

namespace kiln {
namespace {

class WgmmaRowsTest : public ProductTest, public testing::WithParamInterface<WgmmaRowsCase> {
protected:
  WgmmaRowsTest() : ProductTest(GetParam().kernel, GetParam().rows) {}

  /// Stages, sums of the rows that a block owns, and barriers, aligned.
  static int sharedBytes(const Variant &of) {
    const int stages = of["kGroups"] * of["kStages"], ranges = of["kParts"] * of["kGroups"];
    const int ownRows = static_cast<int>(ceilDivide(of["kRows"], of["kParts"]));
    const int sums = ownRows * (4 * ranges * (of["kTileN"] + 4) + 16);
    const int bytes = 128 * of["kGroups"] * (of["kRowStages"] * of["kRows"] + of["kStages"] * of["kTileN"]) + sums +
                      8 * (2 * stages + of["kGroups"] + 3);
    return (bytes + 1023) / 1024 * 1024;
  }

  /// The first `count` rows of x, as the kernel copies them: a range at once, or step by step.
  MappedArray mappedRows(const Variant &by, int count) const {
    MappedArray mapped = mappedX(count, by["kRows"]);
    const int steps = static_cast<int>(ceilDivide(depth, 64));
    const auto most = ceilDivide(steps, by["kParts"] * by["kGroups"]);
    if (by["kRowStages"] == static_cast<int>(most) && depth % 64 == 0) {
      mapped.extents = {64, mapped.extents[1], static_cast<uint64_t>(steps)};
      mapped.strides.push_back(128);
      mapped.box.push_back(most);
    }
    return mapped;
  }

  /// Runs a kernel on the first `count` rows.
  void multiply(const Variant &by, int count, const TestArray &out) {
    cluster = static_cast<uint32_t>(by["kParts"]);
    const Dim3 grid = {ceilDivide(cols, by["kTurns"] * by["kTileN"]) * cluster, ceilDivide(count, by["kRows"])};
    run(by, grid, 128 * (by["kGroups"] + 1), sharedBytes(by), {out}, mappedRows(by, count), mappedWeight(by["kTileN"]),
        bias, out, count);
  }
};

TEST_P(WgmmaRowsTest, Multiplies) {
  TestArray out = output(type, static_cast<size_t>(rows) * cols);
  multiply(kernel, rows, out);
  Expectation expected = product();
  apply(expected, geluTanh);
  expectClose(out, expected);
}
INSTANTIATE_TEST_SUITE_P(Kernels, WgmmaRowsTest, testing::ValuesIn(withRandomShapes(wgmmaRowsCases(), reshapedRows)));

// The bits of a row are the same with any number of rows beside it, in any tile, and however the four ranges of the
// depth are spread over blocks and warpgroups.
using WgmmaRowsCompany = WgmmaRowsTest;
TEST_P(WgmmaRowsCompany, DoesNotMatter) {
  TestArray all = output(type, static_cast<size_t>(rows) * cols);
  multiply(kernel, rows, all);
  const std::pair<int, RowsTile> others[] = {
      {1, {8, 32, 4, 1, 2}}, {8, {8, 64, 2, 2, 1}}, {9, {16, 96, 1, 4, 2}}, {rows, {32, 64, 4, 1, 1}}};
  for (const auto &[count, tile] : others) {
    TestArray some = output(type, static_cast<size_t>(count) * cols);
    multiply(withTile(kernel, tile), count, some);
    EXPECT_EQ(some.bytes(), all.bytes().take_front(some.bytes().size())) << count << " rows";
  }
}

// Nor how many tiles a block has.
TEST_P(WgmmaRowsCompany, HasTheBitsOfOneTileABlock) {
  TestArray all = output(type, static_cast<size_t>(rows) * cols);
  multiply(withTile(kernel, RowsTile{64, 64, 1, 1, 2}), rows, all);
  for (const RowsTile &tile : {RowsTile{64, 32, 1, 1, 3, 3, 1, 2}, {16, 32, 1, 1, 2, 2, 1, 4}}) {
    TestArray some = output(type, static_cast<size_t>(rows) * cols);
    multiply(withTile(kernel, tile), rows, some);
    EXPECT_EQ(some.bytes(), all.bytes()) << tile.turns << " tiles";
  }
}

// Nor does it matter which template multiplies, as long as both cut the depth alike.
TEST_P(WgmmaRowsCompany, HasTheBitsOfWarps) {
  TestArray all = output(type, static_cast<size_t>(rows) * cols);
  const RowsTile cut = {64, 64, 2, 1, 1, 1, 3};
  multiply(withTile(kernel, cut), rows, all);
  const Variant warps("wgmma", "warps_bias_gelu", type,
                      {{"kCols", std::to_string(cols)}, {"kDepth", std::to_string(depth)}});
  const std::pair<int, WarpsTile> others[] = {{1, {8, 1, 1, 6, 2, 3, 1, 1}},
                                              {8, {8, 3, 1, 2, 2, 3, 2, 1}},
                                              {9, {16, 1, 1, 6, 2, 3, 1, 1}},
                                              {rows, {16, 2, 2, 1, 2, 3, 1, 2, 2}}};
  for (const auto &[count, tile] : others) {
    TestArray some = output(type, static_cast<size_t>(count) * cols);
    const Variant by = withTile(warps, tile);
    cluster = 1;
    run(by, warpsGrid(by, count), warpsThreads(by), warpsSharedBytes(by), {some}, x, weight, bias, some, count);
    EXPECT_EQ(some.bytes(), all.bytes().take_front(some.bytes().size())) << count << " rows";
  }
}
INSTANTIATE_TEST_SUITE_P(Kernels, WgmmaRowsCompany,
                         testing::Values(WgmmaRowsCase{withTile(Variant("wgmma", "rows_bias_gelu", DType::BF16,
                                                                        {{"kCols", "104"}, {"kDepth", "456"}}),
                                                                RowsTile{64, 64, 2, 2, 2}),
                                                       41}));

} // namespace
} // namespace kiln
