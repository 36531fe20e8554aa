// matmul_score: log-probabilities of targets and of the best tokens
//   %mm   = matmul %x, %wte {out = f32, transpose_b = true}
//   %p    = log_probability %mm, %targets
//   %best = argmax %mm
//   %q    = log_probability %mm, %best
#include "gemm/mma_tiled_score.cuh"
using namespace kiln;
using Element = bf16;
struct Config {
  static constexpr int kCols = 264, kDepth = 136, kTileM = 128, kTileN = 128, kStages = 3, kWarpsM = 2, kWarpsN = 2;
};
#include "functors/token_scores.cuh"
extern "C" __global__ void __launch_bounds__(MmaTiledShape<Config, Element>::kThreads)
    matmul_score(const Element *x, const Element *wte, const int *targets, float *log_prob, int *best,
                 float *best_log_prob, RowScore *parts, u32 *arrivals, int rows) {
  mmaTiledScore<Config>(rows, x, wte, parts, arrivals, Epilogue{targets, log_prob, best, best_log_prob});
}
