#include "kernels/simt/Cases.h"

namespace kiln {

using Constants = std::map<std::string, std::string>;

static Variant kernel(StringRef name, DType type, Constants constants = {}) {
  return Variant("simt", name, type, std::move(constants));
}

/// The constants of a tiled product: tile, and outputs of a thread.
static Constants tile(int rows, int cols, int depth, int threadRows, int threadCols, Constants others = {}) {
  others["kTileRows"] = std::to_string(rows);
  others["kTileCols"] = std::to_string(cols);
  others["kTileDepth"] = std::to_string(depth);
  others["kThreadRows"] = std::to_string(threadRows);
  others["kThreadCols"] = std::to_string(threadCols);
  return others;
}

std::vector<MatmulCase> tiledCases() {
  auto make = [](DType type, Constants constants) { return kernel("layernorm_matmul_bias_gelu", type, constants); };
  return {
      {make(DType::F32, {}), 70},
      {make(DType::F32, tile(32, 32, 8, 4, 4)), 1},
      {make(DType::F32, tile(32, 64, 32, 8, 4, {{"kCols", "100"}, {"kDepth", "37"}})), 65},
      {make(DType::BF16, tile(64, 64, 32, 8, 8, {{"kDepth", "40"}})), 64},
      {make(DType::F32, tile(128, 128, 32, 8, 8, {{"kCols", "150"}})), 131}, // one buffer
      {make(DType::F16, tile(128, 64, 16, 16, 8, {{"kCols", "66"}, {"kDepth", "50"}})), 130},
      {make(DType::BF16, tile(128, 128, 8, 8, 8, {{"kCols", "256"}})), 3},
      // Configurations that choose-tiles has and that are not above, with edges of all kinds.
      {make(DType::F16, tile(32, 32, 32, 4, 4, {{"kCols", "37"}, {"kDepth", "52"}})), 33},
      {make(DType::BF16, tile(32, 64, 16, 4, 4, {{"kCols", "68"}, {"kDepth", "40"}})), 31},
      {make(DType::F32, tile(64, 32, 16, 4, 4, {{"kCols", "33"}, {"kDepth", "17"}})), 65},
      {make(DType::F16, tile(64, 64, 16, 4, 4, {{"kCols", "96"}, {"kDepth", "20"}})), 66},
      {make(DType::F32, tile(64, 64, 16, 8, 4, {{"kCols", "65"}, {"kDepth", "48"}})), 67},
      {make(DType::BF16, tile(64, 128, 16, 8, 4, {{"kCols", "130"}, {"kDepth", "33"}})), 63},
      {make(DType::F32, tile(64, 128, 16, 8, 8, {{"kCols", "136"}, {"kDepth", "18"}})), 70},
      {make(DType::F32, tile(128, 64, 16, 8, 8, {{"kCols", "72"}, {"kDepth", "35"}})), 129},
      {make(DType::F16, tile(128, 128, 16, 8, 8, {{"kCols", "140"}, {"kDepth", "36"}})), 132},
  };
}

std::vector<MatmulCase> naiveCases() {
  return {
      {kernel("naive_layernorm_matmul_bias_gelu", DType::F32, {{"kCols", "33"}, {"kDepth", "19"}}), 7},
      {kernel("naive_layernorm_matmul_bias_gelu", DType::BF16, {{"kThreads", "32"}}), 3},
  };
}

std::vector<MatmulCase> residualCases() {
  auto make = [](DType type, Constants constants) { return kernel("matmul_bias_residual", type, constants); };
  return {
      {make(DType::F32, {}), 33},
      {make(DType::F32, tile(32, 32, 16, 8, 8, {{"kCols", "64"}, {"kDepth", "64"}})), 40}, // half a warp
      {make(DType::F16, tile(64, 128, 16, 8, 8, {{"kCols", "131"}, {"kDepth", "72"}})), 65},
      {make(DType::BF16, tile(128, 64, 16, 8, 4, {{"kCols", "70"}})), 129},
      {make(DType::F32, tile(96, 32, 16, 12, 4)), 100},
  };
}

std::vector<MatmulCase> fewRowsCases() {
  auto make = [](DType type, int depth, int rows, int warps, int cols, int unroll) {
    return kernel("layernorm_rows_matmul_bias", type,
                  {{"kDepth", std::to_string(depth)},
                   {"kRows", std::to_string(rows)},
                   {"kWarps", std::to_string(warps)},
                   {"kColsPerWarp", std::to_string(cols)},
                   {"kUnroll", std::to_string(unroll)}});
  };
  return {
      {make(DType::F32, 768, 1, 4, 1, 1), 1},  {make(DType::BF16, 768, 1, 4, 2, 3), 2},
      {make(DType::BF16, 776, 4, 2, 8, 1), 7}, {make(DType::F16, 300, 8, 8, 4, 2), 9},
      {make(DType::F32, 33, 2, 1, 8, 1), 3},   {make(DType::BF16, 1600, 16, 2, 2, 2), 16}, // several chunks
      {make(DType::F32, 6400, 2, 4, 2, 1), 2},
  };
}

/// A product of one row at a time: extents, and the division of the work.
static Constants rowProduct(int cols, int depth, int colsPerBlock, int colsPerWarp, int depthWarps, int unroll,
                            int warps) {
  return {{"kCols", std::to_string(cols)},
          {"kDepth", std::to_string(depth)},
          {"kColsPerBlock", std::to_string(colsPerBlock)},
          {"kColsPerWarp", std::to_string(colsPerWarp)},
          {"kDepthWarps", std::to_string(depthWarps)},
          {"kUnroll", std::to_string(unroll)},
          {"kWarps", std::to_string(warps)}};
}

std::vector<MatmulCase> normalizedRowCases() {
  auto make = [](DType type, Constants constants) { return kernel("layernorm_row_matmul_bias", type, constants); };
  return {
      {make(DType::F32, {}), 1},
      {make(DType::BF16, rowProduct(104, 768, 12, 1, 1, 3, 13)),
       1}, // a warp without a column, a last block that ends early
      {make(DType::BF16, rowProduct(96, 1600, 24, 2, 1, 2, 4)), 2}, // tiles and stages
      {make(DType::F16, rowProduct(64, 776, 16, 4, 1, 1, 4)), 1},   // a step past the depth
      {make(DType::F32, rowProduct(37, 33, 5, 1, 1, 1, 2)), 3},     // nothing divides
      {make(DType::F16, rowProduct(50, 100, 10, 2, 1, 3, 1)), 1},   // one warp
  };
}

std::vector<MatmulCase> rowCases() {
  auto make = [](DType type, Constants constants) { return kernel("row_matmul_bias_residual", type, constants); };
  return {
      {make(DType::F32, {}), 1},
      {make(DType::BF16, rowProduct(102, 3072, 8, 4, 4, 3, 8)), 2}, // a last block of fewer columns
      {make(DType::F16, rowProduct(40, 300, 4, 2, 2, 1, 4)), 1},    // stages, a warp with less depth
      {make(DType::BF16, rowProduct(96, 768, 24, 1, 1, 3, 4)), 1},  // tiles
      {make(DType::F32, rowProduct(100, 1536, 8, 4, 1, 2, 2)), 1},  // tiles of several columns and stages
      {make(DType::F32, rowProduct(33, 37, 3, 1, 1, 1, 4)), 2},
  };
}

std::vector<Variant> scoresCases() {
  return {
      kernel("attention_scores", DType::F32),
      kernel("attention_scores", DType::BF16, tile(64, 32, 16, 4, 4, {{"kDepth", "24"}})),
  };
}

std::vector<Variant> naiveScoresCases() {
  return {
      kernel("naive_attention_scores", DType::F32),
      kernel("naive_attention_scores", DType::BF16, {{"kDepth", "24"}, {"kThreads", "96"}}),
  };
}

std::vector<Variant> reducedScoresCases() {
  return {
      kernel("reduced_attention_scores", DType::F32, {{"kThreads", "64"}}),
      kernel("reduced_attention_scores", DType::F16, {{"kDepth", "72"}, {"kThreads", "32"}}),
  };
}

std::vector<Variant> triangularNaiveCases() { return {kernel("triangular_scores_naive", DType::F32)}; }

std::vector<Variant> triangularRegisterCases() {
  return {
      kernel("triangular_scores_registers", DType::F32),
      kernel("triangular_scores_registers", DType::F16, {{"kDepth", "25"}, {"kVec", "1"}}),
  };
}

std::vector<Variant> triangularTiledCases() {
  return {
      kernel("triangular_scores_tiled", DType::F32),
      kernel("triangular_scores_tiled", DType::BF16, tile(64, 32, 16, 4, 4, {{"kDepth", "24"}})),
  };
}

std::vector<AttentionCase> naiveFlashCases() {
  auto make = [](DType type, int headSize, int tile = 16, bool causal = true, int window = 0) {
    return kernel("naive_flash_attention", type,
                  {{"kHeadSize", std::to_string(headSize)},
                   {"kTile", std::to_string(tile)},
                   {"kCausal", causal ? "true" : "false"},
                   {"kWindow", std::to_string(window)}});
  };
  return {
      {make(DType::F32, 64), 2, 20, 36, {3, 16}},
      {make(DType::BF16, 24), 1, 33, 40, {7}},
      {make(DType::F16, 40, 32), 1, 34, 50, {16}},
      {make(DType::F32, 8, 16, /*causal=*/false), 1, 5, 19, {0}},
      {make(DType::F32, 16, 16, /*causal=*/true, /*window=*/18), 1, 40, 60, {20}},
  };
}

std::vector<Variant> valuesCases() {
  return {
      kernel("attention_values", DType::F32),
      kernel("attention_values", DType::F16, tile(64, 64, 8, 8, 4, {{"kCols", "24"}})),
  };
}

std::vector<AttentionCase> flashCases() {
  auto make = [](DType type, int headSize, int queries, int keys, int threads, bool causal = true, int window = 0) {
    return kernel("flash_attention", type,
                  {{"kHeadSize", std::to_string(headSize)},
                   {"kTileQueries", std::to_string(queries)},
                   {"kTileKeys", std::to_string(keys)},
                   {"kThreads", std::to_string(threads)},
                   {"kCausal", causal ? "true" : "false"},
                   {"kWindow", std::to_string(window)}});
  };
  return {
      {make(DType::F32, 64, 64, 64, 256), 2, 70, 70, {0, 0}}, // dynamic shared memory
      {make(DType::F32, 64, 32, 32, 128), 2, 45, 95, {3, 50}},
      {make(DType::BF16, 64, 64, 32, 128), 1, 130, 130, {0}},
      {make(DType::F16, 80, 32, 32, 128), 2, 33, 38, {5}},
      {make(DType::F32, 8, 32, 32, 128), 2, 33, 38, {5}},
      {make(DType::F32, 128, 32, 32, 128, /*causal=*/false), 1, 20, 50, {0}},
      {make(DType::BF16, 256, 32, 16, 128), 1, 40, 40, {0}},
      {make(DType::F32, 72, 32, 32, 128), 1, 1, 1, {0}}, // one visible key
      {make(DType::F32, 32, 16, 16, 128), 2, 19, 40, {2, 21}},
      {make(DType::BF16, 24, 16, 64, 128), 1, 35, 70, {30}},
      {make(DType::F16, 40, 32, 64, 256), 1, 34, 99, {65}},
      {make(DType::BF16, 16, 64, 16, 256), 1, 65, 65, {0}},
      {make(DType::F16, 104, 16, 32, 128), 1, 18, 36, {7}},
      {make(DType::F32, 48, 32, 16, 256), 1, 33, 50, {17}},
      {make(DType::F32, 64, 32, 32, 128, /*causal=*/true, /*window=*/16), 1, 90, 97, {7}},
      {make(DType::F16, 64, 64, 16, 256, /*causal=*/true, /*window=*/3), 1, 90, 97, {7}},
  };
}

std::vector<AttentionCase> splitCases(StringRef name) {
  auto make = [&](DType type, int headSize, int splits, int warps, int stages, int window = 0, int queries = 1) {
    return kernel(name, type,
                  {{"kHeadSize", std::to_string(headSize)},
                   {"kSplits", std::to_string(splits)},
                   {"kWarps", std::to_string(warps)},
                   {"kStages", std::to_string(stages)},
                   {"kWindow", std::to_string(window)},
                   {"kQueries", std::to_string(queries)}});
  };
  // Positions are at the borders of rounds, of blocks, and of a part's first round: of 32 rounds.
  return {
      {make(DType::F32, 64, 2, 4, 2, /*window=*/24), 2, 1, 64, {0, 15, 23, 24, 63}},
      {make(DType::BF16, 32, 1, 2, 1, /*window=*/5), 1, 1, 64, {3, 4, 60}},
      {make(DType::F32, 64, 4, 1, 1), 2, 1, 64, {0, 7, 8, 15, 16, 63}}, // 8 keys a round
      {make(DType::F32, 64, 2, 8, 2), 1, 1, 300, {299, 255, 256, 127}},
      {make(DType::BF16, 64, 2, 4, 2), 2, 1, 100, {99, 15, 16, 63, 64}}, // 16 keys a round
      {make(DType::BF16, 64, 1, 4, 3), 1, 1, 100, {99, 64}},
      {make(DType::F16, 80, 8, 1, 2), 2, 1, 150, {140, 5, 127, 128}},
      {make(DType::F32, 256, 1, 3, 2), 1, 1, 80, {79, 64}}, // one key at a time
      {make(DType::F32, 256, 2, 5, 1), 1, 1, 70, {69}},
      {make(DType::BF16, 8, 2, 1, 1), 2, 1, 200, {150, 127, 128}}, // one lane a key
      {make(DType::F16, 24, 2, 1, 2, /*window=*/70), 1, 1, 150, {149, 64}},
      {make(DType::BF16, 128, 8, 2, 2), 1, 1, 200, {150}},
      {make(DType::F32, 64, 2, 4, 2, 0, /*queries=*/5), 2, 5, 300, {0, 5, 250, 255, 295}},
      {make(DType::BF16, 64, 4, 1, 1, 0, /*queries=*/3), 1, 3, 100, {0, 14, 97}},
      {make(DType::F32, 256, 1, 3, 2, 0, /*queries=*/9), 1, 9, 80, {3, 70}}, // new keys in many rounds
      {make(DType::BF16, 32, 1, 2, 1, /*window=*/5, /*queries=*/8), 1, 8, 64, {0, 3, 50}},
  };
}

static RowsCase rowsCase(StringRef name, DType type, int rows, int cols, int threads, int rowThreads, int vec,
                         Constants others = {}) {
  others["kThreads"] = std::to_string(threads);
  others["kRowThreads"] = std::to_string(rowThreads);
  others["kVec"] = std::to_string(vec);
  return {kernel(name, type, others), rows, cols};
}

std::vector<RowsCase> layerNormCases() {
  auto make = [](DType type, int rows, int cols, int threads, int rowThreads, int vec) {
    return rowsCase("residual_layernorm", type, rows, cols, threads, rowThreads, vec,
                    {{"kCols", std::to_string(cols)}});
  };
  return {
      make(DType::F32, 9, 768, 128, 32, 4), make(DType::BF16, 3, 768, 256, 256, 8),
      make(DType::F32, 3, 2400, 64, 32, 4), // in shared memory
      make(DType::F32, 70, 100, 64, 1, 4),  make(DType::F16, 3, 37, 64, 32, 1),
      make(DType::F32, 2, 6400, 64, 64, 8), // in shared memory
      make(DType::F32, 3, 33, 32, 32, 1),
  };
}

std::vector<RowsCase> onePassLayerNormCases() {
  auto make = [](DType type, int rows, int cols, int threads, int rowThreads, int vec) {
    return rowsCase("streaming_layernorm", type, rows, cols, threads, rowThreads, vec,
                    {{"kCols", std::to_string(cols)}});
  };
  return {
      make(DType::F32, 9, 768, 128, 32, 1),
      make(DType::BF16, 3, 768, 256, 256, 8),
      make(DType::F32, 3, 2400, 64, 32, 4), // in shared memory
      make(DType::F16, 70, 100, 64, 1, 4),
  };
}

std::vector<RowsCase> rowStatisticsCases() {
  auto make = [](DType type, int rows, int cols, int threads, int rowThreads, int vec) {
    return rowsCase("row_statistics", type, rows, cols, threads, rowThreads, vec, {{"kCols", std::to_string(cols)}});
  };
  return {
      make(DType::BF16, 9, 768, 128, 32, 8),
      make(DType::F32, 3, 768, 256, 256, 4),
      make(DType::F32, 3, 2400, 64, 32, 4), // in shared memory
      make(DType::F16, 3, 37, 64, 32, 1),
  };
}

std::vector<RowsCase> mergedStatisticsCases() {
  auto make = [](int groups) -> RowsCase {
    return {kernel("merged_statistics", DType::F32, {{"kGroups", std::to_string(groups)}}), 8, groups};
  };
  return {make(96), make(200), make(7), make(34)};
}

std::vector<RowsCase> rowReductionCases() {
  auto make = [](DType type, int rows, int cols, int threads) -> RowsCase {
    return {kernel("row_rstd", type, {{"kCols", std::to_string(cols)}, {"kThreads", std::to_string(threads)}}), rows,
            cols};
  };
  return {make(DType::F32, 5, 768, 128), make(DType::BF16, 3, 33, 64), make(DType::F32, 2, 1000, 512)};
}

std::vector<RowsCase> scoreRowsCases() {
  auto make = [](DType type, int rows, int cols, int threads, int unroll) -> RowsCase {
    return {kernel("score_rows", type,
                   {{"kCols", std::to_string(cols)},
                    {"kThreads", std::to_string(threads)},
                    {"kUnroll", std::to_string(unroll)}}),
            rows, cols};
  };
  return {make(DType::F32, 9, 1009, 128, 4), make(DType::BF16, 8, 33, 64, 2), make(DType::F32, 7, 1, 32, 1)};
}

std::vector<RowsCase> causalSoftmaxCases() {
  auto make = [](DType type, int heads, int tokens, int threads, int rowThreads, int vec, bool online) {
    return rowsCase("causal_softmax", type, heads, tokens, threads, rowThreads, vec,
                    {{"kOnline", online ? "true" : "false"}});
  };
  return {
      make(DType::F32, 2, 33, 128, 32, 1, true),
      make(DType::F32, 3, 80, 64, 64, 4, false),
      make(DType::BF16, 1, 202, 64, 64, 2, true),
  };
}

std::vector<RowsCase> maskedSoftmaxCases() {
  auto make = [](DType type, int rows, int cols, int threads, int rowThreads, int vec, bool online) {
    return rowsCase("masked_softmax", type, rows, cols, threads, rowThreads, vec,
                    {{"kOnline", online ? "true" : "false"}});
  };
  return {
      make(DType::F32, 20, 64, 128, 128, 4, false),
      make(DType::F16, 40, 31, 32, 1, 1, true),
      make(DType::BF16, 20, 64, 128, 32, 8, true),
  };
}

std::vector<RowsCase> mapCases() {
  auto make = [](DType type, int cols, int vec, int unroll) {
    return kernel(
        "bias_gelu", type,
        {{"kCols", std::to_string(cols)}, {"kVec", std::to_string(vec)}, {"kUnroll", std::to_string(unroll)}});
  };
  return {
      {make(DType::F32, 96, 4, 1), 21, 96},
      {make(DType::BF16, 96, 8, 3), 70, 96},
      {make(DType::F16, 1537, 2, 2), 1, 1537}, // a last element without neighbour
  };
}

Variant mathKernel() { return kernel("math_functions", DType::F32); }

std::vector<Variant> allSimtKernels() {
  std::vector<Variant> all = {mathKernel()};
  auto append = [&](const auto &cases) {
    for (const auto &c : cases)
      all.push_back(c.kernel);
  };
  for (const auto &cases :
       {tiledCases(), naiveCases(), residualCases(), fewRowsCases(), normalizedRowCases(), rowCases()})
    append(cases);
  for (const auto &cases :
       {flashCases(), naiveFlashCases(), splitCases("split_kv_attention"), splitCases("cluster_split_kv_attention")})
    append(cases);
  for (const auto &cases :
       {layerNormCases(), onePassLayerNormCases(), rowStatisticsCases(), mergedStatisticsCases(), rowReductionCases(),
        scoreRowsCases(), causalSoftmaxCases(), maskedSoftmaxCases(), mapCases()})
    append(cases);
  for (const auto &kernels : {scoresCases(), naiveScoresCases(), reducedScoresCases(), triangularNaiveCases(),
                              triangularRegisterCases(), triangularTiledCases(), valuesCases()})
    all.insert(all.end(), kernels.begin(), kernels.end());
  return all;
}

} // namespace kiln
