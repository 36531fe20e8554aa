// layernorm_rows_matmul_bias: the query, key and value projection of decode
//   %ln  = layernorm %x, %ln_w, %ln_b {eps = 1e-05}
//   %mm  = matmul %ln, %w_qkv {transpose_b = true}
//   %add = add %mm, %b_qkv
#include "gemv/simt_rows.cuh"
using namespace kiln;
using Element = float;
using Parameter = Element;
struct Config {
  static constexpr int kCols = 100, kDepth = 768, kRows = 1, kWarps = 4, kColsPerWarp = 1, kUnroll = 1;
};
#include "functors/normalized_rows.cuh"
struct Epilogue {
  const Element *b_qkv;
  Element *out;
  template <int V> KILN_DEVICE void operator()(Vec<float, V> mm, int row, int col) const {
    const auto add = mm + load<V>(b_qkv + col);
    store(out + i64(row) * Config::kCols + col, add);
  }
};
extern "C" __global__ void __launch_bounds__(Config::kWarps * 32)
    layernorm_rows_matmul_bias(const Element *x, const Element *ln_w, const Element *ln_b, const Element *w_qkv,
                               const Element *b_qkv, Element *out, int rows) {
  simtRows<Config>(rows, Input{x, ln_w, ln_b}, w_qkv, Epilogue{b_qkv, out});
}
