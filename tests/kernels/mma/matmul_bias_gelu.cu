// matmul_bias_gelu: the first half of an MLP
//   %mm  = matmul %x, %w_fc {transpose_b = true}
//   %add = add %mm, %b_fc
//   %act = gelu %add {approx = tanh}
#include "gemm/mma_tiled.cuh"
using namespace kiln;
using Element = bf16;
struct Config {
  static constexpr int kCols = 264, kDepth = 72, kTileM = 128, kTileN = 128, kStages = 3, kWarpsM = 2, kWarpsN = 2;
};
#include "functors/bias_gelu_ahead.cuh"
extern "C" __global__ void __launch_bounds__(MmaTiledShape<Config, Element>::kThreads)
    matmul_bias_gelu(const Element *x, const Element *w_fc, const float *b_fc, Element *out, int rows) {
  mmaTiled<Config>(rows, x, w_fc, Epilogue{b_fc, out});
}
