// naive_layernorm_matmul_bias_gelu: layernorm_matmul_bias_gelu at the lowest rung of the ladder
//   %ln  = layernorm %x, %ln_w, %ln_b {eps = 1e-05}
//   %mm  = matmul %ln, %w_fc {transpose_b = true}
//   %add = add %mm, %b_fc
//   %act = gelu %add {approx = tanh}
#include "gemm/naive.cuh"
using namespace kiln;
using Element = float;
using Parameter = Element;
struct Config {
  static constexpr int kCols = 128, kDepth = 96, kThreads = 128;
  static constexpr bool kWeightTransposed = true;
};
#include "functors/bias_gelu.cuh"
#include "functors/normalized_rows.cuh"
extern "C" __global__ void __launch_bounds__(Config::kThreads)
    naive_layernorm_matmul_bias_gelu(const Element *x, const Element *ln_w, const Element *ln_b, const Element *w_fc,
                                     const Element *b_fc, Element *out, int rows) {
  naiveMatmul<Config>(rows, Input{x, ln_w, ln_b}, w_fc, Epilogue{b_fc, out});
}
