// triangular_scores_naive: masked scores up to the diagonal, a thread an output
//   %qk    = matmul %q, %k {transpose_b = true}
//   %s     = scale %qk {factor = 0.125}
//   %score = causal_mask %s
#include "device/math.cuh"
#include "gemm/naive.cuh"
using namespace kiln;
using Element = float;
struct Config {
  static constexpr int kCols = 0, kDepth = 64, kThreads = 128;
  static constexpr bool kWeightTransposed = true, kFillAboveDiagonal = true;
};
#include "functors/masked_scores.cuh"
#include "functors/queries.cuh"
extern "C" __global__ void __launch_bounds__(Config::kThreads)
    triangular_scores_naive(const Element *q, const Element *k, Element *scores, int tokens) {
  const i64 head = blockIndexZ(), operand = head * tokens * Config::kDepth;
  naiveMatmul<Config>(tokens, tokens, Config::kDepth, Input{q + operand}, k + operand,
                      Epilogue{scores + head * tokens * tokens, tokens});
}
