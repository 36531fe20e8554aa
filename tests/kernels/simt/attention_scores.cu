// attention_scores: the first product of unfused attention, batched over heads; scores above the diagonal are not
// needed
//   %qk    = matmul %q, %k {transpose_b = true}
//   %score = scale %qk {factor = 0.125}
#include "gemm/simt_tiled.cuh"
using namespace kiln;
using Element = float;
struct Config {
  static constexpr int kCols = 0, kDepth = 64, kTileRows = 32, kTileCols = 32, kTileDepth = 16;
  static constexpr int kThreadRows = 4, kThreadCols = 4;
  static constexpr bool kWeightTransposed = true, kSkipAboveDiagonal = true;
};
#include "functors/queries.cuh"
#include "functors/scaled_scores.cuh"
extern "C" __global__ void __launch_bounds__(SimtTiledShape<Config>::kThreads)
    attention_scores(const Element *q, const Element *k, Element *scores, int tokens) {
  const i64 head = blockIndexZ(), operand = head * tokens * Config::kDepth;
  simtTiled<Config>(tokens, tokens, Config::kDepth, Input{q + operand}, k + operand,
                    Epilogue{scores + head * tokens * tokens, tokens});
}
