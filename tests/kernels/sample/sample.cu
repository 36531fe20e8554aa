// sample: the next token of each row
#include "sample/sample.cuh"
using namespace kiln;
using Element = float;
struct Config {
  static constexpr int kVocabulary = 50257, kPitch = 50257, kGroup = 128, kThreads = 1024, kRing = 4;
};
extern "C" __global__ void __launch_bounds__(Config::kThreads, 1)
    sample_rows(const Element *logits, i32 *tokens, i32 *positions, const SamplingSettings *settings, SamplingRow *rows,
                GroupBest *best, u32 *launches, u64 *ring, u32 *arrivals) {
  sample<Config>(logits, tokens, positions, settings, rows, best, launches, ring, arrivals);
}
