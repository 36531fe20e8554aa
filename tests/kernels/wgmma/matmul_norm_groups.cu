// matmul_norm_groups: a product that merges the statistics of its rows, and hands out those of its results
//   %mm   = matmul %x, %w_fc {out = f32, transpose_b = true}
//   …     functors/norm_groups_ahead.cuh
#include "gemm/wgmma_tiled.cuh"
using namespace kiln;
using Element = bf16;
struct Config {
  static constexpr int kCols = 96, kDepth = 96;
  static constexpr int kTileM = 128, kTileN = 128, kStages = 3, kConsumers = 1, kTeams = 2;
  static constexpr int kClusterM = 1, kClusterN = 1, kParts = 1, kRanges = 1, kShared = 1;
};
#include "functors/norm_groups_ahead.cuh"
extern "C" __global__ void __launch_bounds__(WgmmaTiledShape<Config, Element>::kThreads)
    matmul_norm_groups(const __grid_constant__ TensorMap x, const __grid_constant__ TensorMap w_fc, const float *means,
                       const float *squares, const float *w_sums, const float *b_fc, float *out, float *out_means,
                       float *out_squares, int rows) {
  wgmmaTiled<Config, Element>(rows, x, w_fc, Epilogue{means, squares, w_sums, b_fc, out, out_means, out_squares});
}
