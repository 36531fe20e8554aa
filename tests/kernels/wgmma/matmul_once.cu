// matmul_once: a product that counts how often each of its elements is stored
//   %mm = matmul %x, %w {out = f32, transpose_b = true}
#include "gemm/wgmma_tiled.cuh"
using namespace kiln;
using Element = bf16;
struct Config {
  static constexpr int kCols = 264, kDepth = 72;
  static constexpr int kTileM = 128, kTileN = 128, kStages = 3, kConsumers = 1, kTeams = 2;
  static constexpr int kClusterM = 1, kClusterN = 1, kParts = 1, kRanges = 1, kShared = 1;
};
struct Epilogue {
  int *counts;
  template <int V> struct Operands {};
  template <int V> KILN_DEVICE Operands<V> operands(int, int) const { return {}; }
  template <int V> KILN_DEVICE void operator()(Vec<float, V>, Operands<V>, int row, int col) const {
    int *to = counts + i64(row) * Config::kCols + col;
    for (int v = 0; v < V; ++v)
      to[v] += 1;
  }
};
extern "C" __global__ void __launch_bounds__(WgmmaTiledShape<Config, Element>::kThreads)
    matmul_once(const __grid_constant__ TensorMap x, const __grid_constant__ TensorMap w, int *counts, int rows) {
  wgmmaTiled<Config, Element>(rows, x, w, Epilogue{counts});
}
