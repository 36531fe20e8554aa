// rows_matmul_residual: the projection of the heads of decode with a batch
//   %mm  = matmul %x, %w_proj {transpose_b = true}
//   %add = add %mm, %b_proj
//   %res = add %add, %skip
#include "gemv/mma_rows.cuh"
using namespace kiln;
using Element = bf16;
struct Config {
  static constexpr int kCols = 104, kDepth = 72, kRows = 8, kTileDepth = 256, kUnroll = 2, kWarpsK = 4, kWarpsN = 1;
};
struct Input {
  const Element *x;
  static constexpr bool kNormalizes = false;
  template <int V> KILN_DEVICE Vec<float, V> load(int row, int k) const {
    return kiln::load<V>(x + i64(row) * Config::kDepth + k);
  }
};
#include "functors/bias_residual_ahead.cuh"
extern "C" __global__ void __launch_bounds__(MmaRowsShape<Config>::kThreads)
    rows_matmul_residual(const Element *x, const Element *w_proj, const float *b_proj, const Element *skip, float *out,
                         int rows) {
  mmaRows<Config>(rows, Input{x}, w_proj, Epilogue{b_proj, skip, out});
}
