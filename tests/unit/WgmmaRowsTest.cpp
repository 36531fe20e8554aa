// gemv_wgmma adds the ranges of the depth in order. So a row's bits in @decode are the same with any number of rows if
// the depth has as many ranges in all of the family's configurations.
#include "IrSupport.h"

#include "kernels/cost/Problem.h"
#include "kernels/families/Families.h"
#include "kernels/families/matmul/DepthCut.h"

namespace kiln {
namespace {

class WgmmaRows : public IrTest {
protected:
  /// A product of one token per sequence.
  const Op &product(int64_t batch, int64_t cols, int64_t depth) {
    std::string b = std::to_string(batch), n = std::to_string(cols), k = std::to_string(depth);
    return op(parse("module @m {\n  dim B : 1.." + b + "\n  weight %w : bf16[" + n + "," + k + "] = \"w\"\n" +
                    "  func @decode(%x: bf16[B,1," + k + "]) -> bf16[B,1," + n + "] {\n" +
                    "    %y = matmul %x, %w {transpose_b = true} : bf16[B,1," + n + "]\n    return %y\n  }\n}\n"),
              "decode", "y");
  }

  const Target &target = *cantFail(findTarget("sm_90a"), "a target of this project");
};

TEST_F(WgmmaRows, RangesDoNotDependOnRows) {
  for (auto [cols, depth] : {std::pair<int64_t, int64_t>{32, 8},
                             {96, 72},
                             {768, 768},
                             {768, 3072},
                             {2304, 768},
                             {6400, 1600},
                             {1600, 6400},
                             {50304, 1280}}) {
    SCOPED_TRACE(testing::Message() << cols << " columns of " << depth);
    std::set<int64_t> ranges, rows;
    for (int64_t batch : {1, 2, 8, 9, 16, 31, 64, 100, 1024}) {
      const Op &op = product(batch, cols, depth);
      ASSERT_TRUE(wgmmaRowsFamily.runs(op, target, upperBounds(op)));
      for (const Tile &tile : wgmmaRowsFamily.configurations(op, target, upperBounds(op))) {
        Attribute attribute(tile);
        expectSuccess(checkTile(op, wgmmaRowsFamily, &attribute, target, upperBounds(op)));
        ranges.insert(setting(tile, "parts") * setting(tile, "groups"));
        rows.insert(setting(tile, "rows"));
      }
    }
    EXPECT_EQ(ranges.size(), 1U);
    EXPECT_EQ(rows, (std::set<int64_t>{8, 16, 32, 64}));
  }
}

/// Clusters of 8 fill 120 of 132 multiprocessors: with 128 blocks, some have two.
TEST_F(WgmmaRows, BlocksThatFindNoMultiprocessorCostTime) {
  const Op &op = product(/*batch=*/64, /*cols=*/1024, /*depth=*/4096);
  std::map<int64_t, double> seconds; // of clusters of 8, by columns of a tile
  for (const Tile &tile : wgmmaRowsFamily.configurations(op, target, upperBounds(op)))
    if (setting(tile, "parts") == 8)
      seconds[setting(tile, "tile_n")] = wgmmaRowsFamily.estimate(op, tile, target, upperBounds(op));
  ASSERT_TRUE(seconds.count(64) && seconds.count(96));
  EXPECT_GT(seconds[64], seconds[96]); // 128 blocks, 88 blocks
}

/// Up to 16 rows run in warps, without clusters, in the order of sums of all rows: clusters have no say in it.
TEST_F(WgmmaRows, OrdersFollowFromRowsThatHaveNoClusters) {
  const Op &op = product(/*batch=*/64, /*cols=*/1024, /*depth=*/1024);
  const DepthCut cut = cutOfFewTokens(op, target);
  EXPECT_EQ(cut.ranges, 4);
}

} // namespace
} // namespace kiln
