// warps_norm_groups: a product that merges the statistics of its rows, and hands out those of its results
//   %mm   = matmul %x, %w_fc {out = f32, transpose_b = true}
//   …     functors/norm_groups_ahead.cuh
#include "gemv/mma_warps.cuh"
using namespace kiln;
using Element = bf16;
struct Config {
  static constexpr int kCols = 96, kDepth = 136, kRows = 8, kTilesN = 1, kWarpsN = 1, kDepthWarps = 2, kRanges = 2,
                       kChains = 1, kUnroll = 1, kBuffers = 1, kTurns = 1;
};
#include "functors/norm_groups_ahead.cuh"
extern "C" __global__ void __launch_bounds__(MmaWarpsShape<Config, Element>::kThreads)
    warps_norm_groups(const Element *x, const Element *w_fc, const float *means, const float *squares,
                      const float *w_sums, const float *b_fc, float *out, float *out_means, float *out_squares,
                      int rows) {
  mmaWarps<Config>(rows, x, w_fc, Epilogue{means, squares, w_sums, b_fc, out, out_means, out_squares});
}
