// fragment_scores: scores of attention in tensor cores, operands from global memory
//   %qk    = matmul %q, %k {transpose_b = true}
//   %score = scale %qk {factor = 0.125}
#include "gemm/mma_fragments.cuh"
using namespace kiln;
using Element = float;
struct Config {
  static constexpr int kCols = 0, kDepth = 64, kWarps = 4;
  static constexpr bool kWeightTransposed = true;
};
struct Input {
  const Element *q;
  static constexpr bool kNormalizes = false;
  template <int V> KILN_DEVICE Vec<float, V> load(int row, int k) const {
    return kiln::load<V>(q + i64(row) * Config::kDepth + k);
  }
};
struct Epilogue {
  Element *scores;
  int tokens;
  template <int V> KILN_DEVICE void operator()(Vec<float, V> qk, int row, int col) const {
    const auto score = qk * 0.125f;
    store(scores + i64(row) * tokens + col, score);
  }
};
extern "C" __global__ void __launch_bounds__(32 * Config::kWarps)
    fragment_scores(const Element *q, const Element *k, Element *scores, int tokens) {
  const i64 head = blockIndexZ(), operand = head * tokens * Config::kDepth;
  mmaFragments<Config>(tokens, tokens, Config::kDepth, Input{q + operand}, k + operand,
                       Epilogue{scores + head * tokens * tokens, tokens});
}
