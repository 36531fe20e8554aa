// math_functions: the functions of device/math.cuh, each in a row of the output
#include "device/base.cuh"
#include "device/index.cuh"
#include "device/math.cuh"
using namespace kiln;
using Element = float;
struct Config {
  static constexpr int kThreads = 128;
};
// Where kiln's functions come before CUDA's of the same names.
namespace kiln {
template <class Put> KILN_DEVICE void putFunctions(float x, float positive, const Put &put) {
  put(exp(x));
  put(exp2(x));
  put(log(positive));
  put(rsqrt(positive));
  put(reciprocal(positive));
  put(tanh(x));
  put(approximateTanh(x));
  put(erf(x));
  put(gelu_tanh(x));
  put(gelu_tanh_bf16(x));
  put(gelu_erf(x));
}
} // namespace kiln
extern "C" __global__ void __launch_bounds__(Config::kThreads)
    math_functions(const Element *x, const Element *positive, Element *out, int count) {
  const int i = int(blockIndexX()) * Config::kThreads + int(threadIndex());
  if (i >= count)
    return;
  int row = 0;
  putFunctions(x[i], positive[i], [&](float value) { out[row++ * count + i] = value; });
}
