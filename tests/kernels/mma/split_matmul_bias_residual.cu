// split_matmul_bias_residual: the second half of an MLP, parts of the depth in blocks of their own
//   %mm  = matmul %x, %w_proj {out = f32, transpose_b = true}
//   %add = add %mm, %b_proj
//   %res = add %add, %skip
#include "gemm/mma_tiled_split.cuh"
using namespace kiln;
using Element = bf16;
struct Config {
  static constexpr int kCols = 264, kDepth = 136, kTileM = 128, kTileN = 128, kStages = 3, kWarpsM = 2, kWarpsN = 2,
                       kSplits = 2;
};
#include "functors/bias_residual_ahead.cuh"
extern "C" __global__ void __launch_bounds__(MmaTiledShape<Config, Element>::kThreads)
    split_matmul_bias_residual(const Element *x, const Element *w_proj, const float *b_proj, const Element *skip,
                               float *parts, u32 *arrivals, float *out, int rows) {
  mmaTiledSplit<Config>(rows, x, w_proj, parts, arrivals, Epilogue{b_proj, skip, out});
}
