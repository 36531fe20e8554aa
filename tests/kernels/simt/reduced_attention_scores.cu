// reduced_attention_scores: attention_scores with one block per output
//   %qk    = matmul %q, %k {transpose_b = true}
//   %score = scale %qk {factor = 0.125}
#include "gemm/block_reduction.cuh"
using namespace kiln;
using Element = float;
struct Config {
  static constexpr int kCols = 0, kDepth = 64, kThreads = 128;
  static constexpr bool kWeightTransposed = true;
};
#include "functors/queries.cuh"
#include "functors/scaled_scores.cuh"
extern "C" __global__ void __launch_bounds__(Config::kThreads)
    reduced_attention_scores(const Element *q, const Element *k, Element *scores, int tokens) {
  const i64 head = blockIndexZ(), operand = head * tokens * Config::kDepth;
  blockReduction<Config>(tokens, tokens, Config::kDepth, Input{q + operand}, k + operand,
                         Epilogue{scores + head * tokens * tokens, tokens});
}
