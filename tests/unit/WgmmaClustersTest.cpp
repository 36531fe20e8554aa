// Clusters of gemm_wgmma: which configurations it has, and what their model says of L2 and of the depth.
#include "IrSupport.h"

#include "kernels/cost/Problem.h"
#include "kernels/families/Families.h"

namespace kiln {
namespace {

class WgmmaClusters : public IrTest {
protected:
  /// A product of the tokens of prompts, or of one a sequence. It replaces the one before.
  const Op &product(StringRef tokens, int64_t cols, int64_t depth) {
    std::string t = tokens.str(), n = std::to_string(cols), k = std::to_string(depth);
    return op(parse("module @m {\n  dim B : 1..8\n  dim T : 1..1024\n  weight %w : bf16[" + n + "," + k +
                    "] = \"w\"\n" + "  func @f(%x: bf16[B," + t + "," + k + "]) -> bf16[B," + t + "," + n + "] {\n" +
                    "    %y = matmul %x, %w {transpose_b = true} : bf16[B," + t + "," + n +
                    "]\n    return %y\n  }\n}\n"),
              "f", "y");
  }

  /// The fastest configuration for so many rows of one prompt, by the model.
  static Tile best(const Op &op, const Target &target, int64_t rows) {
    std::vector<Tile> tiles = wgmmaTiledFamily.configurations(op, target, upperBounds(op));
    DimBinding dims = {{"B", 1}, {"T", rows}};
    auto seconds = [&](const Tile &tile) { return wgmmaTiledFamily.estimate(op, tile, target, dims); };
    return *llvm::min_element(tiles, [&](const Tile &a, const Tile &b) { return seconds(a) < seconds(b); });
  }
  static int64_t copiers(const Tile &tile) { return setting(tile, "cluster_m") * setting(tile, "cluster_n"); }

  const Target &target = *cantFail(findTarget("sm_90a"), "a target of this project");
};

TEST_F(WgmmaClusters, EveryConfigurationFitsItsTemplate) {
  struct Case {
    int64_t cols, depth, mostParts, mostBlocks;
  };
  for (auto [cols, depth, mostParts, mostBlocks] :
       {Case{32, 8, 1, 4}, {96, 72, 2, 4}, {768, 3072, 8, 8}, {2304, 768, 8, 8}}) {
    SCOPED_TRACE(testing::Message() << cols << " columns of " << depth);
    const Op &op = product("T", cols, depth);
    int64_t parts = 0, blocks = 0;
    for (const Tile &tile : wgmmaTiledFamily.configurations(op, target, upperBounds(op))) {
      Attribute attribute(tile);
      expectSuccess(checkTile(op, wgmmaTiledFamily, &attribute, target, upperBounds(op)));
      parts = std::max(parts, setting(tile, "parts"));
      blocks = std::max(blocks, wgmmaTiledFamily.launch(op, tile).cluster);
    }
    EXPECT_EQ(parts, mostParts);
    EXPECT_EQ(blocks, mostBlocks);
  }
}

// Beside a block of half the size, a block of the next kernel has room.
TEST_F(WgmmaClusters, SmallTilesComeInHalfTheSize) {
  const Op &op = product("T", 2304, 768);
  std::vector<int64_t> stages, bytes;
  for (const Tile &tile : wgmmaTiledFamily.configurations(op, target, upperBounds(op)))
    if (setting(tile, "tile_m") == 64 && setting(tile, "tile_n") == 96 && setting(tile, "teams") == 1 &&
        setting(tile, "ranges") == 1 && wgmmaTiledFamily.launch(op, tile).cluster == 1) {
      stages.push_back(setting(tile, "stages"));
      bytes.push_back(wgmmaTiledFamily.launch(op, tile).dynamicShared + 1024);
    }
  EXPECT_EQ(stages, (std::vector<int64_t>{8, 5}));
  EXPECT_LE(2 * bytes.back(), target.sharedPerMultiprocessor);
}

// The bits of a row of decode do not depend on the rows beside it, but would on the parts.
TEST_F(WgmmaClusters, DecodeHasNoParts) {
  const Op &op = product("1", 50304, 768);
  for (const Tile &tile : wgmmaTiledFamily.configurations(op, target, upperBounds(op)))
    EXPECT_EQ(setting(tile, "parts"), 1) << Attribute(tile).str();
}

TEST_F(WgmmaClusters, FewDeepTilesAreCutIntoParts) {
  const Op &deep = product("T", 768, 3072);
  for (int64_t rows : {64, 256, 1024})
    EXPECT_GT(setting(best(deep, target, rows), "parts"), 1) << rows << " rows";
  EXPECT_EQ(setting(best(product("T", 3072, 768), target, 1024), "parts"), 1);
}

TEST_F(WgmmaClusters, CopiesForOthersPayWhereL2IsSlow) {
  const Op &op = product("T", 3072, 768);
  Target slow = target;
  slow.times.wgmmaTiled.l2Bytes /= 2;
  EXPECT_EQ(copiers(best(op, target, 1024)), 1);
  EXPECT_GT(copiers(best(op, slow, 1024)), 1);
}

} // namespace
} // namespace kiln
