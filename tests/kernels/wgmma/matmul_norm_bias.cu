// matmul_norm_bias: a product of rows that are normalised afterwards, its sums stored as they are
//   %mm   = matmul %x, %w_fc {out = f32, transpose_b = true}
//   %norm = normalize_product %mm, %mean, %rstd, %w_sums
//   %add  = add %norm, %b_fc
#include "gemm/wgmma_tiled.cuh"
using namespace kiln;
using Element = bf16;
struct Config {
  static constexpr int kCols = 264, kDepth = 72;
  static constexpr int kTileM = 128, kTileN = 128, kStages = 3, kConsumers = 1, kTeams = 2;
  static constexpr int kClusterM = 1, kClusterN = 1, kParts = 1, kRanges = 1, kShared = 1;
};
#include "functors/norm_bias_ahead.cuh"
extern "C" __global__ void __launch_bounds__(WgmmaTiledShape<Config, Element>::kThreads)
    matmul_norm_bias(const __grid_constant__ TensorMap x, const __grid_constant__ TensorMap w_fc, const float *mean,
                     const float *rstd, const float *w_sums, const float *b_fc, float *out, int rows) {
  wgmmaTiled<Config, Element>(rows, x, w_fc, Epilogue{mean, rstd, w_sums, b_fc, out});
}
