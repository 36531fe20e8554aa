// triangular_scores_registers: masked scores up to the diagonal, tiles in registers
//   %qk    = matmul %q, %k {transpose_b = true}
//   %s     = scale %qk {factor = 0.125}
//   %score = causal_mask %s
#include "device/math.cuh"
#include "gemm/register_tiled.cuh"
using namespace kiln;
using Element = float;
struct Config {
  static constexpr int kCols = 0, kDepth = 64, kVec = 4;
  static constexpr bool kWeightTransposed = true, kFillAboveDiagonal = true;
};
#include "functors/masked_scores.cuh"
#include "functors/queries.cuh"
extern "C" __global__ void __launch_bounds__(256)
    triangular_scores_registers(const Element *q, const Element *k, Element *scores, int tokens) {
  const i64 head = blockIndexZ(), operand = head * tokens * Config::kDepth;
  registerTiled<Config>(tokens, tokens, Config::kDepth, Input{q + operand}, k + operand,
                        Epilogue{scores + head * tokens * tokens, tokens});
}
