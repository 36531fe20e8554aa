// bias_gelu: the ops after a library's matrix product
//   %add = add %mm, %b_fc
//   %act = gelu %add {approx = erf}
#include "device/math.cuh"
#include "elementwise/map.cuh"
using namespace kiln;
using Element = float;
struct Config {
  static constexpr int kCols = 96, kThreads = 128, kVec = 4, kUnroll = 1;
};
struct Body {
  const Element *mm, *b_fc;
  Element *out;
  template <int V> KILN_DEVICE void operator()(i64 index) const {
    const auto add = load<V>(mm + index) + load<V>(b_fc + index % Config::kCols);
    const auto act = gelu_erf(add);
    store(out + index, act);
  }
};
extern "C" __global__ void __launch_bounds__(Config::kThreads)
    bias_gelu(const Element *mm, const Element *b_fc, Element *out, i64 count) {
  mapElements<Config>(count, Body{mm, b_fc, out});
}
