// matmul_bias_split_cache: queries, keys and values of a prompt, to heads and to the cache
//   %mm  = matmul %x, %w_qkv {transpose_b = true}
//   %add = add %mm, %b_qkv
//   %q   = split_heads %add {heads = kHeads, part = 0, parts = 3}
//   %k   = split_heads %add {heads = kHeads, part = 1, parts = 3}
//   %v   = split_heads %add {heads = kHeads, part = 2, parts = 3}
//   %kn  = cache_write %kc, %k, %positions
//   %vn  = cache_write %vc, %v, %positions
#include "gemm/wgmma_tiled.cuh"
using namespace kiln;
using Element = bf16;
struct Config {
  static constexpr int kCols = 264, kDepth = 72;
  static constexpr int kTileM = 128, kTileN = 128, kStages = 3, kConsumers = 1, kTeams = 2;
  static constexpr int kClusterM = 1, kClusterN = 1, kParts = 1, kRanges = 1, kShared = 1;
  static constexpr int kHeads = 2, kHeadSize = 16, kCapacity = 64;
};
struct Epilogue {
  static constexpr int kPart = Config::kHeads * Config::kHeadSize;
  const float *b_qkv;
  const int *positions;
  Element *q, *kc, *vc;
  int T;
  template <int V> struct Operands {
    Packed<float, V> b_qkv;
    int position;
  };
  template <int V> KILN_DEVICE Operands<V> operands(int row, int col) const {
    return {loadPacked<V>(b_qkv + col), positions[row / T]};
  }
  /// The element of a tensor of heads with `length` places a head.
  KILN_DEVICE static i64 inHeads(int b, int col, int length, int place) {
    return ((i64(b) * Config::kHeads + col / Config::kHeadSize) * length + place) * Config::kHeadSize +
           col % Config::kHeadSize;
  }
  template <int V> KILN_DEVICE void operator()(Vec<float, V> mm, const Operands<V> &with, int row, int col) const {
    const int b = row / T, t = row % T;
    const auto add = mm + with.b_qkv.unpack();
    if (col < kPart)
      store(q + inHeads(b, col, T, t), add);
    if (col >= kPart && col < 2 * kPart)
      store(kc + inHeads(b, col - kPart, Config::kCapacity, with.position + t), add);
    if (col >= 2 * kPart)
      store(vc + inHeads(b, col - 2 * kPart, Config::kCapacity, with.position + t), add);
  }
};
extern "C" __global__ void __launch_bounds__(WgmmaTiledShape<Config, Element>::kThreads)
    matmul_bias_split_cache(const __grid_constant__ TensorMap x, const __grid_constant__ TensorMap w_qkv,
                            const float *b_qkv, const int *positions, Element *q, Element *kc, Element *vc, int B,
                            int T) {
  wgmmaTiled<Config, Element>(B * T, x, w_qkv, Epilogue{b_qkv, positions, q, kc, vc, T});
}
