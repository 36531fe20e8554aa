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
};
struct Epilogue {
  const float *b_proj;
  const Element *skip;
  float *out;
  template <int V> struct Operands {
    Packed<float, V> b_proj;
    Packed<Element, V> skip;
  };
  template <int V> KILN_DEVICE Operands<V> operands(int row, int col) const {
    return {loadPacked<V>(b_proj + col), loadPacked<V>(skip + i64(row) * Config::kCols + col)};
  }
  template <int V> KILN_DEVICE void operator()(Vec<float, V> mm, const Operands<V> &with, int row, int col) const {
    const auto add = mm + with.b_proj.unpack();
    const auto res = add + with.skip.unpack();
    store(out + i64(row) * Config::kCols + col, res);
  }
};
extern "C" __global__ void __launch_bounds__(WgmmaTiledShape<Config, Element>::kThreads)
    matmul_bias_residual(const __grid_constant__ TensorMap x, const __grid_constant__ TensorMap w_proj,
                         const float *b_proj, const Element *skip, float *out, int rows) {
  wgmmaTiled<Config, Element>(rows, x, w_proj, Epilogue{b_proj, skip, out});
}
