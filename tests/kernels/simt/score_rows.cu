// score_rows: log-probabilities of targets and of the best tokens, logits in memory
//   %p    = log_probability %logits, %targets
//   %best = argmax %logits
//   %q    = log_probability %logits, %best
#include "device/numeric.cuh"
#include "norm/score_rows.cuh"
using namespace kiln;
using Element = float;
struct Config {
  static constexpr int kCols = 768, kThreads = 128, kUnroll = 4;
};
struct Input {
  const Element *logits;
  KILN_DEVICE float operator()(int row, int col) const { return toFloat(logits[i64(row) * Config::kCols + col]); }
};
#include "functors/token_scores.cuh"
extern "C" __global__ void __launch_bounds__(Config::kThreads)
    score_rows(const Element *logits, const int *targets, float *log_prob, int *best, float *best_log_prob) {
  scoreRows<Config>(Input{logits}, Epilogue{targets, log_prob, best, best_log_prob});
}
