// layernorm_matmul_bias_gelu: the first half of an MLP
//   %ln  = layernorm %x, %ln_w, %ln_b {eps = 1e-05}
//   %mm  = matmul %ln, %w_fc {transpose_b = true}
//   %add = add %mm, %b_fc
//   %act = gelu %add {approx = tanh}
#include "gemm/simt_tiled.cuh"
using namespace kiln;
using Element = float;
struct Config {
  static constexpr int kCols = 128, kDepth = 96, kTileRows = 64, kTileCols = 64, kTileDepth = 16;
  static constexpr int kThreadRows = 4, kThreadCols = 4;
  static constexpr bool kWeightTransposed = true;
};
struct Input {
  const Element *x, *ln_w, *ln_b;
  static constexpr bool kNormalizes = true;
  static constexpr float kEps = 1e-05f;
  template <int V> KILN_DEVICE Vec<float, V> load(int row, int k) const {
    return kiln::load<V>(x + i64(row) * Config::kDepth + k);
  }
  template <int V> struct Parameters {
    Vec<float, V> ln_w, ln_b;
  };
  template <int V> KILN_DEVICE Parameters<V> parameters(int k) const {
    return {kiln::load<V>(ln_w + k), kiln::load<V>(ln_b + k)};
  }
  template <int V>
  KILN_DEVICE Vec<float, V> normalize(Vec<float, V> x, RowStatistics s, const Parameters<V> &p) const {
    const auto ln = (x - s.mean) * s.rstd * p.ln_w + p.ln_b;
    return ln;
  }
};
struct Epilogue {
  const Element *b_fc;
  Element *out;
  template <int V> KILN_DEVICE void operator()(Vec<float, V> mm, int row, int col) const {
    const auto add = mm + load<V>(b_fc + col);
    const auto act = gelu_tanh(add);
    store(out + i64(row) * Config::kCols + col, act);
  }
};
extern "C" __global__ void __launch_bounds__(SimtTiledShape<Config>::kThreads)
    layernorm_matmul_bias_gelu(const Element *x, const Element *ln_w, const Element *ln_b, const Element *w_fc,
                               const Element *b_fc, Element *out, int rows) {
  simtTiled<Config>(rows, Input{x, ln_w, ln_b}, w_fc, Epilogue{b_fc, out});
}
