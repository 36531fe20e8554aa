// warps_bias_residual: the second half of an MLP
//   %mm  = matmul %x, %w_proj {out = f32, transpose_b = true}
//   %add = add %mm, %b_proj
//   %res = add %add, %skip
#include "gemv/mma_warps.cuh"
using namespace kiln;
using Element = bf16;
struct Config {
  static constexpr int kCols = 264, kDepth = 136, kRows = 8, kTilesN = 1, kWarpsN = 1, kDepthWarps = 2, kRanges = 2,
                       kChains = 1, kUnroll = 1, kBuffers = 1, kTurns = 1;
};
#include "functors/bias_residual_ahead.cuh"
extern "C" __global__ void __launch_bounds__(MmaWarpsShape<Config, Element>::kThreads)
    warps_bias_residual(const Element *x, const Element *w_proj, const float *b_proj, const Element *skip, float *out,
                        int rows) {
  mmaWarps<Config>(rows, x, w_proj, Epilogue{b_proj, skip, out});
}
