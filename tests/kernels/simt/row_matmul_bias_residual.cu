// row_matmul_bias_residual: the second half of an MLP in decode, one row a block
//   %mm  = matmul %x, %w_proj {transpose_b = true}
//   %add = add %mm, %b_proj
//   %res = add %add, %skip
#include "gemv/simt_row.cuh"
using namespace kiln;
using Element = float;
struct Config {
  static constexpr int kCols = 100, kDepth = 768;
  static constexpr int kColsPerBlock = 4, kColsPerWarp = 1, kDepthWarps = 2, kUnroll = 3, kWarps = 8;
};
struct Input {
  const Element *x;
  static constexpr bool kNormalizes = false;
  template <int V> KILN_DEVICE Vec<float, V> load(int row, int k) const {
    return kiln::load<V>(x + i64(row) * Config::kDepth + k);
  }
};
struct Epilogue {
  const Element *b_proj, *skip;
  Element *out;
  template <int V> struct Operands {
    Packed<Element, V> b_proj;
    Packed<Element, V> skip;
  };
  template <int V> KILN_DEVICE Operands<V> operands(int row, int col) const {
    return {loadPacked<V>(b_proj + col), loadPacked<V>(skip + i64(row) * Config::kCols + col)};
  }
  template <int V>
  KILN_DEVICE void operator()(Vec<float, V> mm, const Operands<V> &with, int row, int col) const {
    const auto add = mm + with.b_proj.unpack();
    const auto res = add + with.skip.unpack();
    store(out + i64(row) * Config::kCols + col, res);
  }
};
extern "C" __global__ void __launch_bounds__(Config::kWarps * 32)
    row_matmul_bias_residual(const Element *x, const Element *w_proj, const Element *b_proj, const Element *skip,
                             Element *out, int rows) {
  simtRow<Config>(rows, Input{x}, w_proj, Epilogue{b_proj, skip, out});
}
