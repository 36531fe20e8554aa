// math_functions: the functions of device/math.cuh, each in a row of the output
#include "device/base.cuh"
#include "device/index.cuh"
#include "device/math.cuh"
using namespace kiln;
using Element = float;
struct Config {
  static constexpr int kThreads = 128;
};
extern "C" __global__ void __launch_bounds__(Config::kThreads)
    math_functions(const Element *x, const Element *positive, Element *out, int count) {
  const int i = int(blockIndexX()) * Config::kThreads + int(threadIndex());
  if (i >= count)
    return;
  int row = 0;
  const auto put = [&](float value) { out[row++ * count + i] = value; };
  put(exp(x[i]));
  put(exp2(x[i]));
  put(log(positive[i]));
  put(rsqrt(positive[i]));
  put(reciprocal(positive[i]));
  put(tanh(x[i]));
  put(approximateTanh(x[i]));
  put(erf(x[i]));
  put(gelu_tanh(x[i]));
  put(gelu_tanh_bf16(x[i]));
  put(gelu_erf(x[i]));
}
