// fragment_values: values of attention in tensor cores, operands from global memory
//   %pv = matmul %p, %v
#include "gemm/mma_fragments.cuh"
using namespace kiln;
using Element = float;
struct Config {
  static constexpr int kCols = 64, kDepth = 0, kWarps = 2;
  static constexpr bool kWeightTransposed = false;
};
#include "functors/values.cuh"
extern "C" __global__ void __launch_bounds__(32 * Config::kWarps)
    fragment_values(const Element *p, const Element *v, Element *out, int tokens) {
  const i64 head = blockIndexZ(), operand = head * tokens * Config::kCols;
  mmaFragments<Config>(tokens, Config::kCols, tokens, Input{p + head * tokens * tokens, tokens}, v + operand,
                       Epilogue{out + operand});
}
