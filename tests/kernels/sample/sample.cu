// sample: the next token of each row
#include "sample/sample.cuh"
using namespace kiln;
using Element = float;
struct Config {
  static constexpr int kVocabulary = 50257, kPitch = 50257, kGroup = 128, kThreads = 1024, kRing = 4, kContext = 256;
};
extern "C" __global__ void __launch_bounds__(Config::kThreads, 1)
    sample_rows(const Element *logits, i32 *tokens, i32 *positions, const SamplingSettings *settings, SamplingRow *rows,
                u32 *launches, u64 *ring, i32 *text, i32 *recent, GroupBest *best, u32 *arrivals) {
  sample<Config>(logits, {tokens, positions, settings, rows, launches, ring, text, recent}, best, arrivals);
}
