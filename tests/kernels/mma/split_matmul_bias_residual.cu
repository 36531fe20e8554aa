// split_matmul_bias_residual: the second half of an MLP, parts of the depth in blocks of their own
//   %mm  = matmul %x, %w_proj {out = f32, transpose_b = true}
//   %add = add %mm, %b_proj
//   %res = add %add, %skip
#include "gemm/mma_tiled.cuh"
using namespace kiln;
using Element = bf16;
struct Config {
  static constexpr int kCols = 264, kDepth = 136, kTileM = 128, kTileN = 128, kStages = 3, kWarpsM = 2, kWarpsN = 2,
                       kSplits = 2;
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
extern "C" __global__ void __launch_bounds__(MmaTiledShape<Config, Element>::kThreads)
    split_matmul_bias_residual(const Element *x, const Element *w_proj, const float *b_proj, const Element *skip,
                               float *parts, u32 *arrivals, float *out, int rows) {
  mmaTiledSplit<Config>(rows, x, w_proj, parts, arrivals, Epilogue{b_proj, skip, out});
}
