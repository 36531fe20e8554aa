// matmul_bias_gelu: the first half of an MLP
//   %mm  = matmul %x, %w_fc {transpose_b = true}
//   %add = add %mm, %b_fc
//   %act = gelu %add {approx = tanh}
#include "gemm/wgmma_tiled.cuh"
using namespace kiln;
using Element = bf16;
struct Config {
  static constexpr int kCols = 264, kDepth = 72;
  static constexpr int kTileM = 128, kTileN = 128, kStages = 3, kConsumers = 1, kTeams = 2;
  static constexpr int kClusterM = 1, kClusterN = 1, kParts = 1, kRanges = 1, kShared = 1;
};
#include "functors/bias_gelu_ahead.cuh"
extern "C" __global__ void __launch_bounds__(WgmmaTiledShape<Config, Element>::kThreads)
    matmul_bias_gelu(const __grid_constant__ TensorMap x, const __grid_constant__ TensorMap w_fc, const float *b_fc,
                     Element *out, int rows) {
  wgmmaTiled<Config, Element>(rows, x, w_fc, Epilogue{b_fc, out});
}
