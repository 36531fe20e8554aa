// matmul_bias_residual: the second half of an MLP, its weight as checkpoints store it
//   %mm  = matmul %x, %w_proj
//   %add = add %mm, %b_proj
//   %res = add %add, %skip
#include "gemm/simt_tiled.cuh"
using namespace kiln;
using Element = float;
struct Config {
  static constexpr int kCols = 100, kDepth = 37, kTileRows = 32, kTileCols = 32, kTileDepth = 8;
  static constexpr int kThreadRows = 4, kThreadCols = 4;
  static constexpr bool kWeightTransposed = false;
};
struct Input {
  const Element *x;
  static constexpr bool kNormalizes = false;
  template <int V> KILN_DEVICE Vec<float, V> load(int row, int k) const {
    return kiln::load<V>(x + i64(row) * Config::kDepth + k);
  }
};
struct Epilogue {
  const Element *b_proj, *skip;
  Element *out;
  template <int V> KILN_DEVICE void operator()(Vec<float, V> mm, int row, int col) const {
    const auto add = mm + load<V>(b_proj + col);
    const auto res = add + load<V>(skip + i64(row) * Config::kCols + col);
    store(out + i64(row) * Config::kCols + col, res);
  }
};
extern "C" __global__ void __launch_bounds__(SimtTiledShape<Config>::kThreads)
    matmul_bias_residual(const Element *x, const Element *w_proj, const Element *b_proj, const Element *skip,
                         Element *out, int rows) {
  simtTiled<Config>(rows, Input{x}, w_proj, Epilogue{b_proj, skip, out});
}
