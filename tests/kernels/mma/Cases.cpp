#include "kernels/mma/Cases.h"

namespace kiln {

using Constants = std::map<std::string, std::string>;

namespace {

/// A tile, and the warps that share it.
struct Tile {
  int m, n, stages, warpsM, warpsN;
};

MmaMatmulCase matmulCase(StringRef name, DType type, int rows, int cols, int depth, Tile tile) {
  Constants constants = {{"kCols", std::to_string(cols)},          {"kDepth", std::to_string(depth)},
                         {"kTileM", std::to_string(tile.m)},       {"kTileN", std::to_string(tile.n)},
                         {"kStages", std::to_string(tile.stages)}, {"kWarpsM", std::to_string(tile.warpsM)},
                         {"kWarpsN", std::to_string(tile.warpsN)}};
  return {Variant("mma", name, type, std::move(constants)), rows};
}

} // namespace

std::vector<MmaMatmulCase> mmaActivationCases() {
  auto make = [](DType type, int rows, int cols, int depth, Tile tile) {
    return matmulCase("matmul_bias_gelu", type, rows, cols, depth, tile);
  };
  return {
      make(DType::BF16, 130, 264, 72, {128, 128, 3, 2, 2}), // a last step of one chunk
      make(DType::F16, 130, 264, 72, {128, 128, 3, 2, 2}),
      make(DType::BF16, 257, 512, 192, {128, 256, 3, 2, 4}), // exact in columns and depth
      make(DType::F16, 70, 320, 136, {256, 128, 3, 4, 2}),   // fewer rows than a tile
      make(DType::BF16, 65, 72, 320, {64, 64, 4, 2, 2}),
      make(DType::BF16, 1, 40, 8, {64, 128, 5, 2, 2}), // fewer steps than stages
      make(DType::F16, 200, 96, 448, {128, 64, 2, 4, 1}),
      make(DType::BF16, 1100, 96, 64, {64, 64, 3, 2, 2}), // several groups of tiles
      make(DType::BF16, 33, 64, 256, {32, 64, 6, 2, 2}),
      make(DType::BF16, 17, 128, 256, {16, 128, 6, 1, 4}),
      make(DType::F16, 129, 136, 104, {128, 128, 4, 4, 2}),
      make(DType::BF16, 66, 264, 88, {64, 256, 3, 1, 4}),
      make(DType::F16, 100, 144, 120, {96, 128, 5, 2, 2}),
      make(DType::BF16, 33, 136, 80, {32, 128, 4, 1, 4}),
      make(DType::F32, 70, 136, 100, {64, 128, 4, 2, 2}), // tf32
      make(DType::F32, 130, 256, 96, {96, 128, 3, 2, 2}),
  };
}

std::vector<MmaMatmulCase> mmaResidualCases() {
  auto make = [](DType type, int rows, int cols, int depth, Tile tile) {
    return matmulCase("matmul_bias_residual", type, rows, cols, depth, tile);
  };
  return {
      make(DType::BF16, 100, 131, 136, {128, 128, 4, 2, 2}), // columns one by one
      make(DType::F16, 100, 100, 136, {64, 128, 4, 2, 2}),   // by four
      make(DType::BF16, 129, 264, 200, {128, 256, 4, 2, 4}),
  };
}

std::vector<MmaMatmulCase> mmaNormCases() {
  return {
      matmulCase("matmul_norm_bias", DType::BF16, 100, 136, 200, {128, 128, 3, 2, 2}),
      matmulCase("matmul_norm_bias", DType::F16, 70, 33, 328, {64, 64, 4, 2, 2}), // columns one by one
      matmulCase("matmul_norm_bias", DType::BF16, 96, 128, 72, {96, 128, 2, 2, 2}),
  };
}

std::vector<MmaMatmulCase> mmaScoreCases() {
  auto make = [](DType type, int rows, int cols, int depth, Tile tile) {
    return matmulCase("matmul_score", type, rows, cols, depth, tile);
  };
  return {
      make(DType::BF16, 150, 131, 72, {128, 128, 3, 2, 2}), // the last tile has 3 tokens, none for its second warps
      make(DType::F16, 70, 300, 136, {64, 256, 3, 1, 4}),
      make(DType::BF16, 257, 256, 64, {128, 256, 3, 2, 4}), // exact in columns
      make(DType::F32, 33, 101, 100, {96, 128, 3, 2, 2}),   // tf32
      make(DType::F16, 1, 40, 8, {64, 128, 4, 2, 2}),
  };
}

std::vector<MmaMatmulCase> mmaGroupsCases() {
  return {
      matmulCase("matmul_norm_groups", DType::BF16, 100, 96, 224, {64, 64, 3, 2, 2}), // half a tile of columns
      matmulCase("matmul_norm_groups", DType::F16, 70, 192, 96, {64, 128, 4, 2, 2}),
      matmulCase("matmul_norm_groups", DType::BF16, 96, 128, 320, {96, 128, 2, 2, 2}), // exact
  };
}

std::vector<MmaMatmulCase> mmaSplitCases() {
  auto make = [](DType type, int rows, int cols, int depth, int splits, Tile tile) {
    MmaMatmulCase one = matmulCase("split_matmul_bias_residual", type, rows, cols, depth, tile);
    one.kernel = one.kernel.with({{"kSplits", std::to_string(splits)}});
    return one;
  };
  return {
      make(DType::BF16, 65, 136, 264, 2, {64, 64, 4, 2, 2}),   // parts of 3 steps and of 2, the last of one chunk
      make(DType::F16, 40, 131, 512, 8, {32, 64, 3, 1, 2}),    // a step each, fewer than stages
      make(DType::BF16, 130, 256, 768, 6, {96, 128, 4, 2, 2}), // exact in columns and depth
      make(DType::F16, 1, 8, 328, 3, {16, 128, 4, 1, 4}),      make(DType::F32, 70, 132, 200, 3, {64, 64, 4, 2, 2}),
  };
}

namespace {

/// The division of the work of few rows.
struct RowsTile {
  int rows, depth, unroll, warpsK, warpsN;
};

MmaMatmulCase rowsCase(StringRef name, DType type, int rows, int cols, int depth, RowsTile tile) {
  Constants constants = {{"kCols", std::to_string(cols)},          {"kDepth", std::to_string(depth)},
                         {"kRows", std::to_string(tile.rows)},     {"kTileDepth", std::to_string(tile.depth)},
                         {"kUnroll", std::to_string(tile.unroll)}, {"kWarpsK", std::to_string(tile.warpsK)},
                         {"kWarpsN", std::to_string(tile.warpsN)}};
  return {Variant("mma", name, type, std::move(constants)), rows};
}

} // namespace

std::vector<MmaMatmulCase> mmaNormalizedRowsCases() {
  auto make = [](DType type, int rows, int cols, int depth, RowsTile tile) {
    return rowsCase("layernorm_rows_matmul_bias", type, rows, cols, depth, tile);
  };
  return {
      make(DType::BF16, 3, 104, 72, {8, 256, 2, 4, 1}),   // less than a round
      make(DType::F16, 8, 144, 768, {8, 768, 2, 4, 2}),   // exact
      make(DType::BF16, 16, 96, 776, {16, 896, 4, 1, 4}), // a last round of one access
      make(DType::BF16, 21, 40, 520, {16, 128, 2, 2, 2}), // the depth in tiles, the rows in passes
      make(DType::F16, 50, 131, 200, {64, 256, 4, 2, 1}), // columns one by one
      make(DType::BF16, 5, 32, 2184, {8, 2304, 4, 2, 1}), // rows too long for a warp's registers
  };
}

std::vector<MmaMatmulCase> mmaRowsCases() {
  auto make = [](DType type, int rows, int cols, int depth, RowsTile tile) {
    return rowsCase("rows_matmul_residual", type, rows, cols, depth, tile);
  };
  return {
      make(DType::BF16, 2, 96, 1024, {8, 512, 2, 8, 1}),
      make(DType::F16, 1, 20, 8, {8, 64, 2, 1, 1}), // one access of each column
      make(DType::BF16, 30, 136, 264, {32, 384, 4, 3, 8}),
  };
}

Variant withTile(const Variant &kernel, WarpsTile tile) {
  return kernel.with({{"kRows", std::to_string(tile.rows)},
                      {"kTilesN", std::to_string(tile.tilesN)},
                      {"kWarpsN", std::to_string(tile.warpsN)},
                      {"kDepthWarps", std::to_string(tile.depthWarps)},
                      {"kRanges", std::to_string(tile.ranges)},
                      {"kChains", std::to_string(tile.chains)},
                      {"kUnroll", std::to_string(tile.unroll)},
                      {"kBuffers", std::to_string(tile.buffers)},
                      {"kTurns", std::to_string(tile.turns)}});
}

MmaMatmulCase reshapedWarps(const MmaMatmulCase &one, function_ref<int(int)> upTo) {
  int least = 64 * (one.kernel["kRanges"] * one.kernel["kChains"] * one.kernel["kUnroll"]);
  return {one.kernel.with({{"kCols", std::to_string(upTo(2 * one.kernel["kCols"]))},
                           {"kDepth", std::to_string(least + 8 * upTo(32))}}),
          upTo(2 * one.rows)};
}

static MmaMatmulCase warpsCase(StringRef name, DType type, int rows, int cols, int depth, WarpsTile tile) {
  Variant kernel("mma", name, type, {{"kCols", std::to_string(cols)}, {"kDepth", std::to_string(depth)}});
  return {withTile(kernel, tile), rows};
}

std::vector<MmaMatmulCase> mmaWarpsCases() {
  auto make = [](DType type, int rows, int cols, int depth, WarpsTile tile) {
    return warpsCase("warps_bias_residual", type, rows, cols, depth, tile);
  };
  return {
      make(DType::BF16, 1, 104, 328, {8, 1, 1, 6, 2, 3, 1, 1}),     // a step a chain, the last of one chunk
      make(DType::F16, 8, 96, 768, {8, 2, 1, 4, 4, 1, 3, 1}),       // exact, all in one stage
      make(DType::BF16, 3, 131, 840, {8, 3, 1, 2, 2, 3, 1, 2}),     // columns one by one, chains of 2 and 3 steps
      make(DType::F16, 16, 72, 1000, {16, 1, 2, 3, 1, 3, 2, 2}),    // warps along columns, chains of a range apart
      make(DType::BF16, 21, 40, 456, {16, 2, 1, 8, 4, 2, 1, 1}),    // two blocks of rows, columns past the end
      make(DType::BF16, 5, 264, 328, {8, 2, 4, 1, 1, 1, 2, 2, 3}),  // all of the depth in a warp, in turns, a ring
      make(DType::F16, 13, 331, 136, {16, 1, 5, 1, 1, 1, 3, 8, 2}), // the same, a stage a turn, a block of no turn
      make(DType::BF16, 2, 48, 520, {8, 1, 4, 1, 2, 3, 1, 1, 1}),   // chains of one warp
      make(DType::BF16, 9, 64, 1600, {16, 1, 1, 6, 2, 3, 2, 2}),    // a ring of fewer buffers than stages
  };
}

std::vector<MmaMatmulCase> mmaWarpsGroupsCases() {
  auto make = [](DType type, int rows, int cols, int depth, WarpsTile tile) {
    return warpsCase("warps_norm_groups", type, rows, cols, depth, tile);
  };
  return {
      make(DType::BF16, 7, 96, 224, {8, 1, 1, 4, 2, 2, 1, 1}),
      make(DType::F16, 16, 136, 456, {16, 3, 1, 2, 2, 3, 2, 1}),
      make(DType::BF16, 12, 104, 136, {16, 2, 3, 1, 1, 3, 1, 1, 2}), // all of the depth in a warp
  };
}

std::vector<AttentionCase> mmaFlashCases() {
  struct Tile {
    int queries, keys, warps, stages;
  };
  auto make = [](DType type, int headSize, Tile tile, bool causal = true, int window = 0) {
    return Variant("mma", "flash_attention", type,
                   {{"kHeadSize", std::to_string(headSize)},
                    {"kTileQueries", std::to_string(tile.queries)},
                    {"kTileKeys", std::to_string(tile.keys)},
                    {"kWarps", std::to_string(tile.warps)},
                    {"kStages", std::to_string(tile.stages)},
                    {"kCausal", causal ? "true" : "false"},
                    {"kWindow", std::to_string(window)}});
  };
  return {
      {make(DType::BF16, 64, {128, 64, 4, 2}), 2, 200, 200, {0, 0}},
      {make(DType::F16, 64, {64, 64, 4, 3}), 2, 100, 170, {3, 50}},
      {make(DType::BF16, 80, {64, 64, 4, 2}), 2, 70, 75, {5}}, // half a slab of 64 elements
      {make(DType::F16, 72, {32, 32, 2, 2}), 1, 33, 38, {5}},  // padded to 80
      {make(DType::BF16, 8, {64, 64, 4, 2}), 2, 70, 70, {0}},
      {make(DType::BF16, 128, {64, 64, 4, 2}), 1, 100, 100, {0}},
      {make(DType::BF16, 256, {64, 32, 4, 2}), 1, 70, 70, {0}}, // queries stay in shared memory
      {make(DType::BF16, 40, {64, 32, 4, 2}), 1, 1, 1, {0}},    // one visible key
      {make(DType::F16, 64, {64, 64, 2, 2}, /*causal=*/false), 1, 20, 150, {0}},
      {make(DType::BF16, 64, {64, 64, 4, 2}, /*causal=*/true, /*window=*/16), 1, 200, 207, {7}},
      {make(DType::F16, 32, {128, 32, 4, 2}, /*causal=*/true, /*window=*/3), 1, 190, 197, {7}},
  };
}

std::vector<Variant> mmaFragmentScoresCases() {
  return {Variant("mma", "fragment_scores", DType::F32, {}),
          Variant("mma", "fragment_scores", DType::BF16, {{"kDepth", "20"}, {"kWarps", "1"}})};
}

std::vector<Variant> mmaFragmentValuesCases() {
  return {Variant("mma", "fragment_values", DType::F32, {}),
          Variant("mma", "fragment_values", DType::F16, {{"kCols", "24"}})};
}

MmaMatmulCase reshaped(const MmaMatmulCase &one, function_ref<int(int)> upTo) {
  std::string cols = std::to_string(upTo(2 * one.kernel["kCols"]));
  std::string depth = std::to_string(8 * upTo(one.kernel["kDepth"] / 4));
  return {one.kernel.with({{"kCols", cols}, {"kDepth", depth}}), upTo(2 * one.rows)};
}

std::vector<Variant> allMmaKernels() {
  std::vector<Variant> all = mmaFragmentScoresCases();
  llvm::append_range(all, mmaFragmentValuesCases());
  for (const auto &cases :
       {mmaActivationCases(), mmaResidualCases(), mmaNormCases(), mmaGroupsCases(), mmaSplitCases(), mmaScoreCases(),
        mmaNormalizedRowsCases(), mmaRowsCases(), mmaWarpsCases(), mmaWarpsGroupsCases()})
    for (const MmaMatmulCase &c : cases)
      all.push_back(c.kernel);
  for (const AttentionCase &c : mmaFlashCases())
    all.push_back(c.kernel);
  return all;
}

} // namespace kiln
