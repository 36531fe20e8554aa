// warps_bias_gelu: what rows_bias_gelu computes, by the template whose rows have the same bits
//   %mm  = matmul %x, %w_fc {transpose_b = true}
//   %add = add %mm, %b_fc
//   %act = gelu %add {approx = tanh}
#include "gemv/mma_warps.cuh"
using namespace kiln;
using Element = bf16;
struct Config {
  static constexpr int kCols = 264, kDepth = 72, kRows = 8, kTilesN = 1, kWarpsN = 1, kDepthWarps = 2, kRanges = 2,
                       kChains = 1, kUnroll = 1, kBuffers = 1, kTurns = 1;
};
#include "functors/bias_gelu_ahead.cuh"
extern "C" __global__ void __launch_bounds__(MmaWarpsShape<Config, Element>::kThreads)
    warps_bias_gelu(const Element *x, const Element *w_fc, const float *b_fc, Element *out, int rows) {
  mmaWarps<Config>(rows, x, w_fc, Epilogue{b_fc, out});
}
