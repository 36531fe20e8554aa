// causal_softmax: row r of every head sees the first r columns and itself
//   %m = causal_mask %scores
//   %p = softmax %m
#include "norm/softmax.cuh"
using namespace kiln;
using Element = float;
struct Config {
  static constexpr int kThreads = 128, kRowThreads = 32, kVec = 1;
  static constexpr bool kOnline = true;
};
struct Input {
  const Element *scores;
  int tokens;
  template <int V> KILN_DEVICE Vec<float, V> load(int row, int col) const {
    return kiln::load<V>(scores + i64(row) * tokens + col);
  }
  KILN_DEVICE int visible(int row) const { return row % tokens + 1; }
};
struct Epilogue {
  Element *out;
  int tokens;
  template <int V> KILN_DEVICE void operator()(Vec<float, V> p, int row, int col) const {
    store(out + i64(row) * tokens + col, p);
  }
};
extern "C" __global__ void __launch_bounds__(Config::kThreads)
    causal_softmax(const Element *scores, Element *out, int heads, int tokens) {
  softmax<Config>(heads * tokens, tokens, Input{scores, tokens}, Epilogue{out, tokens});
}
