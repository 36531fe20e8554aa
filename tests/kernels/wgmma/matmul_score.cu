// matmul_score: log-probabilities of targets and of the best tokens
//   %mm   = matmul %x, %wte {out = f32, transpose_b = true}
//   %p    = log_probability %mm, %targets
//   %best = argmax %mm
//   %q    = log_probability %mm, %best
#include "gemm/wgmma_score.cuh"
using namespace kiln;
using Element = bf16;
struct Config {
  static constexpr int kCols = 264, kDepth = 72;
  static constexpr int kTileM = 128, kTileN = 128, kStages = 3, kConsumers = 1, kTeams = 2;
  static constexpr int kClusterM = 1, kClusterN = 1, kParts = 1, kRanges = 1, kShared = 1;
  static constexpr int kStretches = 3 * kTeams <= ceilDiv(kCols, kTileN) ? 3 : 1;
};
#include "functors/token_scores.cuh"
extern "C" __global__ void __launch_bounds__(WgmmaTiledShape<Config, Element>::kThreads)
    matmul_score(const __grid_constant__ TensorMap x, const __grid_constant__ TensorMap wte, const int *targets,
                 float *log_prob, int *best, float *best_log_prob, RowScore *parts, u32 *arrivals, int rows) {
  wgmmaScore<Config, Element>(rows, x, wte, parts, arrivals, Epilogue{targets, log_prob, best, best_log_prob});
}
