// matmul_bias_residual: the second half of an MLP, its sums stored as they are
//   %mm  = matmul %x, %w_proj {out = f32, transpose_b = true}
//   %add = add %mm, %b_proj
//   %res = add %add, %skip
#include "gemm/wgmma_tiled.cuh"
using namespace kiln;
using Element = bf16;
struct Config {
  static constexpr int kCols = 264, kDepth = 72;
  static constexpr int kTileM = 128, kTileN = 128, kStages = 3, kConsumers = 1, kTeams = 2;
  static constexpr int kClusterM = 1, kClusterN = 1, kParts = 1, kRanges = 1, kShared = 1;
};
#include "functors/bias_residual_ahead.cuh"
extern "C" __global__ void __launch_bounds__(WgmmaTiledShape<Config, Element>::kThreads)
    matmul_bias_residual(const __grid_constant__ TensorMap x, const __grid_constant__ TensorMap w_proj,
                         const float *b_proj, const Element *skip, float *out, int rows) {
  wgmmaTiled<Config, Element>(rows, x, w_proj, Epilogue{b_proj, skip, out});
}
