// attention_values: the second product of unfused attention, batched over heads; nothing above the diagonal is read
//   %pv = matmul %p, %v
#include "gemm/simt_tiled.cuh"
using namespace kiln;
using Element = float;
struct Config {
  static constexpr int kCols = 64, kDepth = 0, kTileRows = 32, kTileCols = 64, kTileDepth = 16;
  static constexpr int kThreadRows = 4, kThreadCols = 8;
  static constexpr bool kWeightTransposed = false, kInputLowerTriangular = true;
};
#include "functors/values.cuh"
extern "C" __global__ void __launch_bounds__(SimtTiledShape<Config>::kThreads)
    attention_values(const Element *p, const Element *v, Element *out, int tokens) {
  const i64 head = blockIndexZ(), operand = head * tokens * Config::kCols;
  simtTiled<Config>(tokens, Config::kCols, tokens, Input{p + head * tokens * tokens, tokens}, v + operand,
                    Epilogue{out + operand});
}
