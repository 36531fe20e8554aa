#include "kernels/wgmma/Cases.h"

namespace kiln {

namespace {

/// A tile, the warpgroups that multiply it, the blocks of a cluster, and ranges of the depth.
struct ProductTile {
  int m, n, stages, consumers, teams, clusterM = 1, clusterN = 1, parts = 1, ranges = 1;
};

WgmmaMatmulCase matmulCase(StringRef name, DType type, int rows, int cols, int depth, ProductTile tile, int blocks) {
  return {Variant("wgmma", name, type,
                  {{"kCols", std::to_string(cols)},
                   {"kDepth", std::to_string(depth)},
                   {"kTileM", std::to_string(tile.m)},
                   {"kTileN", std::to_string(tile.n)},
                   {"kStages", std::to_string(tile.stages)},
                   {"kConsumers", std::to_string(tile.consumers)},
                   {"kTeams", std::to_string(tile.teams)},
                   {"kClusterM", std::to_string(tile.clusterM)},
                   {"kClusterN", std::to_string(tile.clusterN)},
                   {"kParts", std::to_string(tile.parts)},
                   {"kRanges", std::to_string(tile.ranges)}}),
          rows, blocks};
}

} // namespace

std::vector<WgmmaMatmulCase> wgmmaActivationCases() {
  auto make = [](DType type, int rows, int cols, int depth, ProductTile tile, int blocks) {
    return matmulCase("matmul_bias_gelu", type, rows, cols, depth, tile, blocks);
  };
  return {
      make(DType::BF16, 130, 264, 72, {128, 128, 3, 1, 2}, 2), // a last step of one chunk; teams in turn
      make(DType::F16, 70, 96, 200, {64, 96, 2, 1, 1}, 1),     // more steps than stages, one team
      make(DType::BF16, 1100, 32, 64, {64, 32, 4, 1, 3}, 3),   // groups of 16 tiles, a step a tile, three teams
      make(DType::F16, 257, 192, 136, {128, 192, 3, 2, 1}, 2), // a team of two warpgroups, exact in columns
      make(DType::BF16, 1, 40, 8, {64, 64, 5, 1, 2}, 1),       // fewer steps than stages, a team without a tile
      make(DType::BF16, 200, 160, 328, {192, 160, 2, 3, 1}, 1),
      // Clusters: tiles outside the product along both; a share of two boxes, of which the last has no row.
      make(DType::BF16, 130, 136, 264, {64, 64, 3, 1, 2, 2, 2}, 4),
      make(DType::F16, 300, 96, 136, {64, 64, 2, 1, 1, 2}, 2),          // each cluster several tiles along M
      make(DType::BF16, 300, 192, 264, {64, 64, 2, 1, 1, 2, 2}, 4),     // several tiles, one of them outside along both
      make(DType::F16, 280, 160, 72, {64, 64, 2, 1, 1, 2, 2}, 4),       // shares outside along both
      make(DType::BF16, 90, 320, 200, {128, 32, 3, 2, 1, 1, 4}, 4),     // shares of 32 rows, of which one is outside
      make(DType::F16, 20, 72, 136, {64, 32, 4, 1, 1, 1, 2}, 2),        // a box of fewer rows than a share
      make(DType::BF16, 3, 136, 136, {64, 64, 2, 1, 1, 2, 2}, 4),       // the same, of two shares
      make(DType::BF16, 500, 256, 64, {64, 256, 2, 1, 1, 8}, 8),        // eight blocks, a step a tile
      make(DType::F16, 66, 136, 328, {64, 64, 2, 1, 1, 1, 1, 2}, 1),    // parts of two and three steps
      make(DType::BF16, 140, 100, 520, {128, 64, 2, 2, 1, 1, 1, 4}, 1), // more steps than parts; by four
      make(DType::F16, 40, 136, 520, {64, 128, 3, 1, 1, 1, 1, 8}, 1),   // a vector a thread
      make(DType::BF16, 150, 200, 264, {64, 64, 2, 1, 1, 2, 2, 2}, 1),  // copies and parts
      make(DType::F16, 1, 24, 136, {64, 64, 2, 1, 1, 2, 1, 2}, 1),      // the second share of the weight is outside
      make(DType::BF16, 300, 136, 264, {256, 64, 2, 2, 1, 1, 1, 2}, 1), // parts of 256 rows
      make(DType::F16, 200, 136, 328, {192, 96, 2, 3, 1, 1, 1, 2}, 1),  // of three warpgroups
      // Ranges: of one step and two, the ring goes on; several, a step each; beside a cluster's copies.
      make(DType::BF16, 130, 136, 264, {64, 64, 3, 1, 2, 1, 1, 1, 2}, 2),
      make(DType::F16, 70, 96, 328, {128, 96, 2, 2, 1, 1, 1, 1, 5}, 1),
      make(DType::BF16, 150, 136, 456, {128, 64, 3, 1, 2, 2, 1, 1, 4}, 2),
      // Columns in groups of 16: all sizes of instructions but those of groups of 32; copies of rows for others; parts.
      make(DType::BF16, 130, 136, 136, {64, 48, 3, 1, 3}, 2),
      make(DType::F16, 70, 264, 72, {128, 80, 2, 2, 1}, 2),
      make(DType::BF16, 130, 224, 200, {128, 112, 3, 2, 1}, 1), // exact
      make(DType::F16, 200, 300, 72, {192, 144, 2, 3, 1}, 2),
      make(DType::BF16, 130, 264, 72, {128, 176, 2, 2, 1}, 1),
      make(DType::F16, 130, 264, 136, {128, 208, 2, 2, 1}, 1),
      make(DType::BF16, 60, 264, 72, {64, 240, 2, 1, 1}, 1),
      make(DType::F16, 90, 136, 200, {128, 48, 3, 2, 1, 1, 2}, 2),
      make(DType::BF16, 70, 136, 328, {64, 80, 2, 1, 1, 1, 1, 2}, 1),
      make(DType::F16, 140, 100, 520, {128, 112, 2, 2, 1, 1, 1, 2}, 1),
      // In groups of 8, likewise.
      make(DType::BF16, 130, 136, 136, {64, 40, 3, 1, 3}, 2),
      make(DType::F16, 70, 264, 72, {128, 72, 2, 2, 1}, 2),
      make(DType::BF16, 130, 208, 200, {128, 104, 3, 2, 1}, 1), // exact
      make(DType::F16, 200, 300, 72, {192, 136, 2, 3, 1}, 2),
      make(DType::BF16, 130, 264, 72, {128, 168, 2, 2, 1}, 1),
      make(DType::F16, 130, 264, 136, {128, 200, 2, 2, 1}, 1),
      make(DType::BF16, 60, 264, 72, {64, 232, 2, 1, 1}, 1),
      make(DType::F16, 90, 136, 200, {128, 56, 3, 2, 1, 1, 2}, 2),
      make(DType::BF16, 70, 136, 328, {64, 88, 2, 1, 1, 1, 1, 2}, 1),
      make(DType::F16, 140, 100, 520, {128, 120, 2, 2, 1, 1, 1, 2}, 1),
  };
}

std::vector<WgmmaMatmulCase> wgmmaPartsCases() {
  auto make = [](DType type, int rows, int cols, int depth, ProductTile tile, int blocks) {
    return matmulCase("matmul_bias_gelu", type, rows, cols, depth, tile, blocks);
  };
  return {
      make(DType::BF16, 70, 136, 328, {64, 64, 2, 1, 1, 1, 1, 2}, 2), // pieces of three and two steps
      make(DType::F16, 140, 96, 520, {128, 64, 2, 2, 1, 1, 1, 4}, 3), // of two and three
  };
}

std::vector<WgmmaMatmulCase> wgmmaResidualCases() {
  auto make = [](DType type, int rows, int cols, int depth, ProductTile tile, int blocks) {
    return matmulCase("matmul_bias_residual", type, rows, cols, depth, tile, blocks);
  };
  return {
      make(DType::BF16, 100, 131, 136, {64, 128, 3, 1, 2}, 1), // columns one by one
      make(DType::F16, 100, 100, 136, {64, 64, 4, 1, 2}, 3),   // by four
      make(DType::F16, 300, 224, 72, {256, 160, 2, 2, 1}, 2),
      make(DType::BF16, 150, 131, 136, {64, 64, 2, 1, 2, 2, 2}, 4), // columns one by one
      make(DType::BF16, 100, 131, 264, {64, 96, 2, 1, 1, 1, 1, 2}, 1),
      make(DType::F16, 300, 224, 200, {128, 160, 2, 2, 1, 1, 1, 1, 2}, 2),
      make(DType::BF16, 300, 320, 264, {128, 96, 3, 2, 1, 1, 2, 1, 2}, 4), // ranges of a cluster that shares rows
      make(DType::F16, 270, 192, 264, {128, 64, 2, 2, 1, 2, 1, 1, 2}, 2),  // columns
      make(DType::BF16, 100, 131, 136, {64, 48, 3, 1, 2}, 1),              // groups of 16, columns one by one
      make(DType::F16, 150, 130, 200, {128, 112, 2, 2, 1, 1, 1, 1, 2}, 1), // by two
      make(DType::BF16, 100, 131, 136, {64, 56, 3, 1, 2}, 1),              // groups of 8
  };
}

std::vector<WgmmaMatmulCase> wgmmaOnceCases() {
  auto make = [](DType type, int rows, int cols, ProductTile tile, int blocks) {
    return matmulCase("matmul_once", type, rows, cols, 136, tile, blocks);
  };
  return {
      make(DType::BF16, 130, 136, {128, 64, 3, 1, 2}, 2),            // a last tile with two rows of its own
      make(DType::F16, 160, 96, {64, 96, 2, 1, 1}, 3),               // 32 rows past the end
      make(DType::BF16, 161, 96, {64, 96, 2, 1, 1}, 3),              // 31: it begins where it would
      make(DType::F16, 300, 100, {192, 64, 2, 3, 1}, 1),             // partial columns, tiles one after the other
      make(DType::BF16, 70, 136, {128, 64, 2, 2, 1}, 1),             // one tile
      make(DType::F16, 150, 136, {128, 64, 2, 2, 1, 1, 1, 2}, 1),    // parts
      make(DType::BF16, 330, 128, {64, 64, 2, 1, 2, 1, 1, 1, 2}, 3), // ranges
      make(DType::F16, 330, 128, {128, 64, 2, 1, 1, 2, 2}, 4),       // whole tiles of a cluster, zeros past the end
      make(DType::BF16, 330, 150, {128, 64, 3, 2, 1, 1, 2}, 4),  // a cluster that shares rows, one of its tiles outside
      make(DType::F16, 170, 136, {64, 64, 2, 1, 1, 1, 2, 2}, 4), // and has parts
  };
}

std::vector<WgmmaMatmulCase> wgmmaNormCases() {
  return {
      matmulCase("matmul_norm_bias", DType::BF16, 100, 136, 200, {128, 128, 3, 1, 2}, 1),
      matmulCase("matmul_norm_bias", DType::F16, 70, 33, 328, {64, 64, 4, 1, 2}, 2),     // columns one by one
      matmulCase("matmul_norm_bias", DType::BF16, 256, 192, 72, {256, 192, 2, 2, 1}, 1), // exact
      matmulCase("matmul_norm_bias", DType::F16, 200, 192, 264, {64, 64, 2, 1, 1, 2, 2}, 4),
      matmulCase("matmul_norm_bias", DType::BF16, 70, 192, 264, {64, 64, 2, 1, 1, 1, 1, 4},
                 1), // halves of rows' columns
      matmulCase("matmul_norm_bias", DType::F16, 140, 192, 264, {128, 96, 2, 1, 1, 1, 1, 2}, 1), // two rows a thread
      matmulCase("matmul_norm_bias", DType::BF16, 140, 136, 200, {128, 112, 3, 2, 1}, 1),        // groups of 16
      matmulCase("matmul_norm_bias", DType::F16, 140, 136, 200, {128, 104, 3, 2, 1}, 1),         // of 8
  };
}

std::vector<WgmmaMatmulCase> wgmmaGroupsCases() {
  return {
      matmulCase("matmul_norm_groups", DType::BF16, 100, 96, 224, {64, 64, 3, 1, 2}, 1), // half a tile of columns
      matmulCase("matmul_norm_groups", DType::F16, 257, 192, 96, {128, 192, 3, 2, 1}, 2),
      matmulCase("matmul_norm_groups", DType::BF16, 128, 256, 320, {128, 128, 2, 1, 2}, 1), // exact
      matmulCase("matmul_norm_groups", DType::F16, 100, 96, 224, {64, 64, 3, 1, 1, 2, 2}, 4),
      matmulCase("matmul_norm_groups", DType::BF16, 100, 96, 224, {64, 64, 3, 1, 1, 1, 1, 2}, 1),
      matmulCase("matmul_norm_groups", DType::BF16, 100, 96, 224, {64, 72, 3, 1, 2}, 1), // two columns a thread
  };
}

std::vector<WgmmaMatmulCase> wgmmaMailCases() {
  auto ofGroups = [](WgmmaMatmulCase one) {
    return WgmmaMatmulCase{one.kernel.with({{"kReadsRows", "false"}}), one.rows, one.blocks};
  };
  auto make = [](DType type, int rows, int cols, int depth, ProductTile tile, int blocks) {
    return matmulCase("matmul_norm_mail", type, rows, cols, depth, tile, blocks);
  };
  return {
      make(DType::BF16, 100, 136, 200, {128, 128, 3, 1, 2}, 1), // one block: nobody to wait for
      make(DType::F16, 260, 96, 264, {64, 32, 4, 1, 2}, 3),     // tiles of a team one after the other
      make(DType::BF16, 1100, 64, 64, {64, 32, 4, 1, 3}, 5),    // two groups of tiles, rows in two rounds
      make(DType::F16, 200, 192, 264, {64, 64, 2, 1, 1, 2, 2}, 4),
      make(DType::BF16, 300, 192, 264, {128, 64, 2, 1, 2, 2, 1}, 2),  // teams of clusters
      make(DType::BF16, 256, 192, 768, {256, 192, 2, 2, 1}, 2),       // whole tiles with 192 sums, three vectors a lane
      make(DType::BF16, 70, 192, 264, {64, 64, 2, 1, 1, 1, 1, 4}, 1), // halves of rows' columns
      make(DType::F16, 140, 192, 264, {128, 96, 2, 1, 1, 1, 1, 2}, 1),
      make(DType::BF16, 1, 40, 136, {64, 64, 2, 1, 1}, 1),
      make(DType::BF16, 140, 192, 264, {128, 80, 3, 2, 1}, 2), // groups of 16 columns
      make(DType::BF16, 1100, 64, 64, {64, 32, 4, 1, 1}, 5),   // two groups of tiles, warps that hold two rows
      make(DType::F16, 140, 96, 776, {128, 96, 2, 2, 1}, 2),   // one row
      make(DType::BF16, 70, 64, 1032, {128, 64, 2, 2, 1}, 2),  // none
      make(DType::F16, 70, 192, 264, {64, 112, 2, 1, 1, 1, 1, 2}, 1),
      make(DType::F16, 5, 192, 264, {128, 96, 2, 2, 1}, 2),          // no more rows than warps that compute them
      make(DType::BF16, 11, 64, 520, {64, 64, 2, 1, 1, 1, 1, 4}, 1), // the same in a cluster
      ofGroups(make(DType::BF16, 260, 96, 264, {64, 32, 4, 1, 2}, 3)),
      ofGroups(make(DType::F16, 70, 192, 264, {64, 64, 2, 1, 1, 1, 1, 4}, 1)),
  };
}

std::vector<WgmmaRowsCase> wgmmaRowsMailCases() {
  auto make = [](DType type, int rows, int cols, int depth, RowsTile tile, bool ofRows) -> WgmmaRowsCase {
    Variant kernel("wgmma", "rows_norm_mail", type,
                   {{"kCols", std::to_string(cols)},
                    {"kDepth", std::to_string(depth)},
                    {"kReadsRows", ofRows ? "true" : "false"}});
    return {withTile(kernel, tile), rows};
  };
  return {
      make(DType::BF16, 64, 104, 328, {64, 32, 1, 2, 2}, true),         // four blocks of 16 rows each
      make(DType::F16, 64, 64, 512, {64, 32, 8, 1, 1}, true),           // clusters: each block has 8 of the rows
      make(DType::BF16, 70, 96, 2104, {64, 96, 2, 2, 2}, true),         // two blocks of rows; more vectors than at once
      make(DType::F16, 27, 139, 192, {32, 32, 1, 1, 2, 3, 1, 3}, true), // blocks of several tiles
      make(DType::BF16, 3, 40, 136, {8, 32, 1, 1, 2}, true),
      make(DType::BF16, 64, 104, 328, {64, 32, 1, 2, 2}, false),
      make(DType::F16, 70, 96, 264, {64, 96, 1, 2, 2}, false),
  };
}

std::vector<WgmmaMatmulCase> wgmmaHeadsCases() {
  return {
      matmulCase("matmul_bias_split_cache", DType::BF16, 100, 96, 72, {64, 64, 3, 1, 2}, 2),
      matmulCase("matmul_bias_split_cache", DType::F16, 66, 96, 128, {64, 96, 3, 1, 1}, 1),
      matmulCase("matmul_bias_split_cache", DType::BF16, 100, 96, 136, {64, 64, 3, 1, 1, 2, 2}, 4),
      matmulCase("matmul_bias_split_cache", DType::F16, 66, 96, 136, {64, 96, 3, 1, 1, 1, 1, 2}, 1),
      matmulCase("matmul_bias_split_cache", DType::BF16, 100, 96, 136, {128, 80, 3, 2, 1}, 1), // groups of 16 columns
      matmulCase("matmul_bias_split_cache", DType::F16, 100, 96, 136, {64, 56, 3, 1, 2}, 1),   // of 8
  };
}

Variant withTile(const Variant &kernel, RowsTile tile) {
  return kernel.with({{"kRows", std::to_string(tile.rows)},
                      {"kTileN", std::to_string(tile.n)},
                      {"kParts", std::to_string(tile.parts)},
                      {"kGroups", std::to_string(tile.groups)},
                      {"kStages", std::to_string(tile.stages)},
                      {"kRowStages", std::to_string(tile.rowStages)},
                      {"kChains", std::to_string(tile.chains)},
                      {"kTurns", std::to_string(tile.turns)}});
}

std::vector<WgmmaRowsCase> wgmmaRowsCases() {
  auto make = [](DType type, int rows, int cols, int depth, RowsTile tile) -> WgmmaRowsCase {
    Variant kernel("wgmma", "rows_bias_gelu", type,
                   {{"kCols", std::to_string(cols)}, {"kDepth", std::to_string(depth)}});
    return {withTile(kernel, tile), rows};
  };
  return {
      make(DType::BF16, 3, 104, 328, {8, 64, 2, 1, 3}),    // a cluster; a last step of one chunk; columns past the end
      make(DType::F16, 64, 64, 512, {64, 32, 8, 1, 1}),    // a step a block
      make(DType::BF16, 70, 96, 264, {64, 96, 1, 2, 2}),   // two blocks of rows; threads without a vector; ring reused
      make(DType::F16, 16, 131, 520, {16, 64, 4, 2, 1}),   // columns one by one, ranges of one and two steps
      make(DType::BF16, 1, 40, 136, {32, 32, 1, 3, 1}),    // most rows are not there
      make(DType::BF16, 29, 256, 448, {32, 128, 3, 2, 2}), // rows of a range by one copy, ranges of one and two steps
      make(DType::F16, 19, 64, 704, {32, 32, 2, 2, 3}),    // the same, 24 rows in a box for 32
      make(DType::BF16, 5, 96, 320, {8, 96, 1, 2, 3}),
      make(DType::BF16, 11, 96, 456, {16, 32, 2, 1, 2, 4, 3}),   // ranges of three chains, of one step and two
      make(DType::F16, 40, 72, 520, {64, 64, 1, 2, 3, 3, 2}),    // of two chains
      make(DType::F16, 12, 64, 576, {16, 64, 1, 2, 2, 5}),       // rows at once beside a ring of the weight
      make(DType::BF16, 27, 136, 704, {32, 64, 4, 1, 2, 3, 2}),  // the weight is the left operand, rows in a cluster
      make(DType::F16, 7, 139, 192, {8, 128, 1, 1, 2, 3, 1, 2}), // two instructions a tile, blocks of two tiles
      // Blocks of several tiles: the last block has one tile less, and the last tile fewer columns.
      make(DType::BF16, 27, 139, 192, {32, 32, 1, 1, 2, 3, 1, 3}), // rows at once, for all tiles
      make(DType::F16, 64, 300, 136, {64, 64, 1, 1, 2, 2, 1, 2}),  // rows with every tile of the weight
      make(DType::BF16, 70, 96, 128, {64, 32, 1, 1, 2, 2, 2, 2}),  // all steps of a tile in stages, two chains
  };
}

WgmmaRowsCase reshapedRows(const WgmmaRowsCase &one, function_ref<int(int)> upTo) {
  // Steps of 64 for every range, as many as the stages ask for; just so many if they are of rows.
  int least = one.kernel["kParts"] * one.kernel["kGroups"] * one.kernel["kStages"] * 64;
  bool isFixed = one.kernel["kRowStages"] != one.kernel["kStages"];
  int depth = isFixed ? one.kernel["kDepth"] : least + 8 * upTo(16);
  return {
      one.kernel.with({{"kCols", std::to_string(upTo(2 * one.kernel["kCols"]))}, {"kDepth", std::to_string(depth)}}),
      upTo(2 * one.rows)};
}

std::vector<WgmmaMatmulCase> wgmmaScoreCases() {
  auto make = [](DType type, int rows, int cols, int depth, ProductTile tile, int blocks) {
    return matmulCase("matmul_score", type, rows, cols, depth, tile, blocks);
  };
  return {
      make(DType::BF16, 150, 101, 72, {128, 32, 3, 1, 2}, 3),  // four tiles a row, the last one of 5 tokens
      make(DType::F16, 70, 300, 136, {64, 64, 2, 1, 1}, 2),    // odd and even tiles
      make(DType::BF16, 300, 224, 64, {128, 192, 3, 2, 1}, 2), // a team of two warpgroups, exact in columns
      make(DType::BF16, 1, 40, 8, {64, 64, 5, 1, 2}, 1),       // one tile
      make(DType::BF16, 90, 250, 64, {64, 32, 4, 1, 2}, 5),    // three stretches of two or three tiles, two blocks
      make(DType::BF16, 300, 65, 64, {128, 96, 3, 1, 2}, 1),   // both teams have stripes of one tile
      make(DType::F16, 200, 131, 72, {192, 96, 2, 3, 1}, 2),
      make(DType::BF16, 257, 389, 64, {128, 192, 3, 1, 2}, 2), // a whole prompt's tile, with the most sums a thread
  };
}

std::vector<AttentionCase> wgmmaFlashCases() {
  /// `resident`: blocks per multiprocessor for which the compiler must leave registers. `range`: keys of one; 0: there
  /// is one, else two of two ways, or any number up to eight.
  struct Tile {
    int queries, keys, stages, resident, roles = 1, range = 0, ways = 1;
  };
  auto make = [](DType type, int headSize, Tile tile, bool causal = true, int window = 0) {
    return Variant("wgmma", "wgmma_flash_attention", type,
                   {{"kHeadSize", std::to_string(headSize)},
                    {"kTileQueries", std::to_string(tile.queries)},
                    {"kTileKeys", std::to_string(tile.keys)},
                    {"kStages", std::to_string(tile.stages)},
                    {"kResident", std::to_string(tile.resident)},
                    {"kRoles", std::to_string(tile.roles)},
                    {"kRanges", std::to_string(tile.range == 0  ? 1
                                               : tile.ways == 2 ? 2
                                                                : 8)},
                    {"kRangeKeys", std::to_string(tile.range)},
                    {"kWays", std::to_string(tile.ways)},
                    {"kCausal", causal ? "true" : "false"},
                    {"kWindow", std::to_string(window)}});
  };
  return {
      {make(DType::BF16, 64, {128, 64, 2, 2}),
       2,
       300,
       300,
       {0, 0}}, // one warpgroup ends a tile of keys before the other
      {make(DType::F16, 64, {64, 64, 3, 4}), 2, 100, 170, {3, 50}},
      {make(DType::BF16, 64, {64, 128, 2, 2}), 1, 200, 290, {90}},
      {make(DType::BF16, 80, {64, 64, 2, 3}), 2, 70, 75, {5}}, // a slab of 64 elements and one of 16
      {make(DType::F16, 16, {64, 64, 4, 4}), 1, 33, 38, {5}},
      {make(DType::BF16, 96, {128, 64, 2, 1}), 1, 140, 140, {0}},
      {make(DType::F16, 112, {64, 64, 2, 2}), 1, 70, 70, {0}}, // three slabs of 16
      {make(DType::BF16, 128, {64, 64, 2, 2}), 1, 130, 130, {0}},
      {make(DType::BF16, 64, {64, 64, 2, 4}), 1, 1, 1, {0}}, // one visible key
      {make(DType::F16, 64, {128, 64, 2, 2}, /*causal=*/false), 1, 20, 150, {0}},
      {make(DType::BF16, 64, {128, 64, 3, 2}, /*causal=*/true, /*window=*/16), 1, 200, 207, {7}},
      {make(DType::F16, 32, {64, 64, 2, 4}, /*causal=*/true, /*window=*/3), 1, 190, 197, {7}},
      // A warp for copies: one warpgroup, and two; steps as many as stages, and more.
      {make(DType::BF16, 64, {64, 64, 3, 3, 2}), 2, 300, 300, {0, 0}},
      {make(DType::F16, 64, {128, 64, 2, 1, 2}), 2, 170, 250, {3, 80}},
      {make(DType::BF16, 80, {64, 64, 4, 2, 2}), 1, 70, 75, {5}},
      {make(DType::F16, 64, {64, 64, 2, 3, 2}, /*causal=*/true, /*window=*/16), 1, 200, 207, {7}},
      // Ranges that one way adds: tiles with one of them, two, and more; warpgroups with different numbers of them.
      {make(DType::BF16, 64, {64, 64, 2, 3, 1, 128}), 2, 300, 300, {0, 0}},
      {make(DType::F16, 64, {128, 64, 2, 2, 1, 64}), 2, 170, 250, {3, 80}},
      {make(DType::BF16, 80, {64, 64, 3, 2, 2, 64}), 1, 70, 75, {5}},
      {make(DType::BF16, 128, {64, 128, 2, 1, 1, 128}), 1, 130, 330, {200}},
      // Two ways: tiles in pairs, and one alone; a later tile of one range, or of two; an earlier one of two.
      {make(DType::BF16, 64, {64, 64, 2, 2, 1, 192, 2}), 2, 300, 300, {0, 0}},
      {make(DType::F16, 64, {64, 64, 2, 1, 2, 192, 2}), 2, 256, 270, {3, 14}},
      {make(DType::BF16, 64, {64, 64, 3, 1, 2, 192, 2}), 1, 330, 330, {0}},
      {make(DType::F16, 64, {64, 64, 2, 2, 1, 192, 2}), 1, 230, 330, {100}},
      {make(DType::BF16, 80, {64, 64, 2, 1, 2, 64, 2}), 1, 70, 75, {5}},
      {make(DType::BF16, 128, {64, 64, 2, 1, 1, 192, 2}), 1, 60, 330, {200}},
  };
}

std::vector<Variant> allWgmmaKernels() {
  std::vector<Variant> all;
  for (const auto &cases : {wgmmaActivationCases(), wgmmaResidualCases(), wgmmaOnceCases(), wgmmaNormCases(),
                            wgmmaGroupsCases(), wgmmaMailCases(), wgmmaHeadsCases(), wgmmaScoreCases()})
    for (const WgmmaMatmulCase &c : cases)
      all.push_back(c.kernel);
  for (const auto &cases : {wgmmaRowsCases(), wgmmaRowsMailCases()})
    for (const WgmmaRowsCase &c : cases)
      all.push_back(c.kernel);
  for (const AttentionCase &c : wgmmaFlashCases())
    all.push_back(c.kernel);
  return all;
}

std::string otherDepth(const WgmmaMatmulCase &one, function_ref<int(int)> upTo) {
  int least = 64 * (one.kernel["kParts"] * one.kernel["kRanges"] - 1); // a step for every part and range
  return std::to_string(least + 8 * upTo(one.kernel["kDepth"] / 4));
}

WgmmaMatmulCase reshaped(const WgmmaMatmulCase &one, function_ref<int(int)> upTo) {
  std::string cols = std::to_string(upTo(2 * one.kernel["kCols"]));
  return {one.kernel.with({{"kCols", cols}, {"kDepth", otherDepth(one, upTo)}}), upTo(2 * one.rows), one.blocks};
}

} // namespace kiln
