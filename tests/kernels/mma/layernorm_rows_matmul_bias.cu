// layernorm_rows_matmul_bias: the query, key and value projection of decode with a batch
//   %ln  = layernorm %x, %ln_w, %ln_b {eps = 1e-05}
//   %mm  = matmul %ln, %w_qkv {transpose_b = true}
//   %add = add %mm, %b_qkv
#include "gemv/mma_rows.cuh"
using namespace kiln;
using Element = bf16;
using Parameter = float;
struct Config {
  static constexpr int kCols = 104, kDepth = 72, kRows = 8, kTileDepth = 256, kUnroll = 2, kWarpsK = 4, kWarpsN = 1;
};
#include "functors/normalized_rows.cuh"
struct Epilogue {
  const float *b_qkv;
  float *out;
  template <int V> struct Operands {
    Packed<float, V> b_qkv;
  };
  template <int V> KILN_DEVICE Operands<V> operands(int, int col) const { return {loadPacked<V>(b_qkv + col)}; }
  template <int V> KILN_DEVICE void operator()(Vec<float, V> mm, const Operands<V> &with, int row, int col) const {
    const auto add = mm + with.b_qkv.unpack();
    store(out + i64(row) * Config::kCols + col, add);
  }
};
extern "C" __global__ void __launch_bounds__(MmaRowsShape<Config>::kThreads)
    layernorm_rows_matmul_bias(const Element *x, const float *ln_w, const float *ln_b, const Element *w_qkv,
                               const float *b_qkv, float *out, int rows) {
  mmaRows<Config>(rows, Input{x, ln_w, ln_b}, w_qkv, Epilogue{b_qkv, out});
}
