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
struct Input {
  const Element *q;
  static constexpr bool kNormalizes = false;
  template <int V> KILN_DEVICE Vec<float, V> load(int row, int k) const {
    return kiln::load<V>(q + i64(row) * Config::kDepth + k);
  }
};
struct Epilogue {
  Element *scores;
  int tokens;
  template <int V> KILN_DEVICE void operator()(Vec<float, V> qk, int row, int col) const {
    Vec<float, V> score;
    for (int v = 0; v < V; ++v)
      score[v] = col + v <= row ? qk[v] * 0.125f : -infinity();
    store(scores + i64(row) * tokens + col, score);
  }
};
extern "C" __global__ void __launch_bounds__(SimtTiledShape<Config>::kThreads)
    triangular_scores_tiled(const Element *q, const Element *k, Element *scores, int tokens) {
  const i64 head = blockIndexZ(), operand = head * tokens * Config::kDepth;
  simtTiled<Config>(tokens, tokens, Config::kDepth, Input{q + operand}, k + operand,
                    Epilogue{scores + head * tokens * tokens, tokens});
}
