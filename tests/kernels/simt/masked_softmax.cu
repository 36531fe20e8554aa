// masked_softmax: masked scores are -infinity already; a row may be masked completely
//   %p = softmax %scores
#include "norm/softmax.cuh"
using namespace kiln;
using Element = float;
struct Config {
  static constexpr int kThreads = 128, kRowThreads = 128, kVec = 4;
  static constexpr bool kOnline = false;
};
struct Input {
  const Element *scores;
  int cols;
  template <int V> KILN_DEVICE Vec<float, V> load(int row, int col) const {
    return kiln::load<V>(scores + i64(row) * cols + col);
  }
};
struct Epilogue {
  Element *out;
  int cols;
  template <int V> KILN_DEVICE void operator()(Vec<float, V> p, int row, int col) const {
    store(out + i64(row) * cols + col, p);
  }
};
extern "C" __global__ void __launch_bounds__(Config::kThreads)
    masked_softmax(const Element *scores, Element *out, int rows, int cols) {
  softmax<Config>(rows, cols, Input{scores, cols}, Epilogue{out, cols});
}
