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
#include "functors/queries.cuh"
#include "functors/scaled_scores.cuh"
extern "C" __global__ void __launch_bounds__(32 * Config::kWarps)
    fragment_scores(const Element *q, const Element *k, Element *scores, int tokens) {
  const i64 head = blockIndexZ(), operand = head * tokens * Config::kDepth;
  mmaFragments<Config>(tokens, tokens, Config::kDepth, Input{q + operand}, k + operand,
                       Epilogue{scores + head * tokens * tokens, tokens});
}
