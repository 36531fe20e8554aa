// matmul_norm_groups: a product that merges the statistics of its rows, and hands out those of its results
//   %mm   = matmul %x, %w_fc {out = f32, transpose_b = true}
//   …     functors/norm_groups_ahead.cuh
#include "gemm/mma_tiled.cuh"
using namespace kiln;
using Element = bf16;
struct Config {
  static constexpr int kCols = 96, kDepth = 96, kTileM = 128, kTileN = 128, kStages = 3, kWarpsM = 2, kWarpsN = 2;
};
#include "functors/norm_groups_ahead.cuh"
extern "C" __global__ void __launch_bounds__(MmaTiledShape<Config, Element>::kThreads)
    matmul_norm_groups(const Element *x, const Element *w_fc, const float *means, const float *squares,
                       const float *w_sums, const float *b_fc, float *out, float *out_means, float *out_squares,
                       int rows) {
  mmaTiled<Config>(rows, x, w_fc, Epilogue{means, squares, w_sums, b_fc, out, out_means, out_squares});
}
