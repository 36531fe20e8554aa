// rows_bias_gelu: the first half of an MLP
//   %mm  = matmul %x, %w_fc {transpose_b = true}
//   %add = add %mm, %b_fc
//   %act = gelu %add {approx = tanh}
#include "gemv/wgmma_rows.cuh"
using namespace kiln;
using Element = bf16;
struct Config {
  static constexpr int kCols = 264, kDepth = 72;
  static constexpr int kRows = 8, kTileN = 64, kParts = 2, kGroups = 1, kStages = 1, kRowStages = 1, kShared = 0,
                       kChains = 1, kTurns = 1;
};
#include "functors/bias_gelu_ahead.cuh"
extern "C" __global__ void __launch_bounds__(WgmmaRowsShape<Config, Element>::kThreads)
    rows_bias_gelu(const __grid_constant__ TensorMap x, const __grid_constant__ TensorMap w_fc, const float *b_fc,
                   Element *out, int rows) {
  wgmmaRows<Config, Element>(rows, x, w_fc, Epilogue{b_fc, out});
}
