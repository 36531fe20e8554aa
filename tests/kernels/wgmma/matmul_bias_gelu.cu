// matmul_bias_gelu: the first half of an MLP
//   %mm  = matmul %x, %w_fc {transpose_b = true}
//   %add = add %mm, %b_fc
//   %act = gelu %add {approx = tanh}
#include "gemm/wgmma_tiled.cuh"
using namespace kiln;
using Element = bf16;
struct Config {
  static constexpr int kCols = 264, kDepth = 72;
  static constexpr int kTileM = 128, kTileN = 128, kStages = 3, kConsumers = 1, kTeams = 2;
};
struct Epilogue {
  const float *b_fc;
  Element *out;
  template <int V> struct Operands {
    Packed<float, V> b_fc;
  };
  template <int V> KILN_DEVICE Operands<V> operands(int row, int col) const { return {loadPacked<V>(b_fc + col)}; }
  template <int V> KILN_DEVICE void operator()(Vec<float, V> mm, const Operands<V> &with, int row, int col) const {
    const auto add = mm + with.b_fc.unpack();
    const auto act = gelu_tanh(add);
    store(out + i64(row) * Config::kCols + col, act);
  }
};
extern "C" __global__ void __launch_bounds__(WgmmaTiledShape<Config, Element>::kThreads)
    matmul_bias_gelu(const __grid_constant__ TensorMap x, const __grid_constant__ TensorMap w_fc, const float *b_fc,
                     Element *out, int rows) {
  wgmmaTiled<Config, Element>(rows, x, w_fc, Epilogue{b_fc, out});
}
