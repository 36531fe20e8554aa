// triangular_scores_tiled: masked scores up to the diagonal, tiles in shared memory
//   %qk    = matmul %q, %k {transpose_b = true}
//   %s     = scale %qk {factor = 0.125}
//   %score = causal_mask %s
#include "device/math.cuh"
#include "gemm/simt_tiled.cuh"
using namespace kiln;
using Element = float;
struct Config {
  static constexpr int kCols = 0, kDepth = 64, kTileRows = 32, kTileCols = 32, kTileDepth = 16;
  static constexpr int kThreadRows = 4, kThreadCols = 4;
  static constexpr bool kWeightTransposed = true, kFillAboveDiagonal = true;
};
#include "functors/masked_scores.cuh"
#include "functors/queries.cuh"
extern "C" __global__ void __launch_bounds__(SimtTiledShape<Config>::kThreads)
    triangular_scores_tiled(const Element *q, const Element *k, Element *scores, int tokens) {
  const i64 head = blockIndexZ(), operand = head * tokens * Config::kDepth;
  simtTiled<Config>(tokens, tokens, Config::kDepth, Input{q + operand}, k + operand,
                    Epilogue{scores + head * tokens * tokens, tokens});
}
