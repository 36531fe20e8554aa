// layernorm_row_matmul_bias: the query, key and value projection of decode, one row a block
//   %ln  = layernorm %x, %ln_w, %ln_b {eps = 1e-05}
//   %mm  = matmul %ln, %w_qkv {transpose_b = true}
//   %add = add %mm, %b_qkv
#include "gemv/simt_row.cuh"
using namespace kiln;
using Element = float;
using Parameter = Element;
struct Config {
  static constexpr int kCols = 100, kDepth = 768;
  static constexpr int kColsPerBlock = 12, kColsPerWarp = 1, kDepthWarps = 1, kUnroll = 3, kWarps = 4;
};
#include "functors/normalized_rows.cuh"
struct Epilogue {
  const Element *b_qkv;
  Element *out;
  template <int V> struct Operands {
    Packed<Element, V> b_qkv;
  };
  template <int V> KILN_DEVICE Operands<V> operands(int row, int col) const { return {loadPacked<V>(b_qkv + col)}; }
  template <int V>
  KILN_DEVICE void operator()(Vec<float, V> mm, const Operands<V> &with, int row, int col) const {
    const auto add = mm + with.b_qkv.unpack();
    store(out + i64(row) * Config::kCols + col, add);
  }
};
extern "C" __global__ void __launch_bounds__(Config::kWarps * 32)
    layernorm_row_matmul_bias(const Element *x, const Element *ln_w, const Element *ln_b, const Element *w_qkv,
                              const Element *b_qkv, Element *out, int rows) {
  simtRow<Config>(rows, Input{x, ln_w, ln_b}, w_qkv, Epilogue{b_qkv, out});
}
