// device/math.cuh against computations in double: errors are no larger than stated, also on a GPU, where the hardware
// approximates several of these functions.

#include "kernels/KernelTest.h"
#include "kernels/simt/Cases.h"

#include <cmath>

namespace kiln {
namespace {

/// The distance of a number from the next larger float.
double ulp(double value) { return std::ldexp(1.0, std::max(std::ilogb(value), -126) - 23); }

/// A function, and the largest error of its result that is allowed at an operand.
struct Function {
  const char *name;
  bool ofPositive; ///< of the second array's elements
  double (*exact)(double);
  double (*largestError)(double x, double exact);
};

// What device/math.cuh says, or the CUDA programming guide where it says nothing.
template <int kUlps> double ulps(double, double exact) { return kUlps * ulp(exact); }

// The order of rows of math_functions.cu.
const Function functions[] = {
    {"exp", false, [](double x) { return std::exp(x); }, ulps<2>},
    {"exp2", false, [](double x) { return std::exp2(x); }, ulps<2>},
    {"log", true, [](double x) { return std::log(x); }, ulps<1>},
    {"rsqrt", true, [](double x) { return 1 / std::sqrt(x); }, ulps<2>},
    {"reciprocal", true, [](double x) { return 1 / x; }, ulps<1>},
    {"tanh", false, [](double x) { return std::tanh(x); }, ulps<2>},
    {"approximateTanh", false, [](double x) { return std::tanh(x); },
     [](double, double exact) { return std::ldexp(std::abs(exact), -11); }},
    {"erf", false, [](double x) { return std::erf(x); }, ulps<2>},
    // The exponential of a sum that is rounded: its error is relative to the exponent. Subnormal factors of x are zero.
    {"gelu_tanh", false, geluTanh,
     [](double x, double exact) {
       return 4 * ulp(exact) + std::ldexp(std::abs(x * x * x * exact), -24) + std::ldexp(std::abs(x), -126);
     }},
    {"gelu_tanh_bf16", false, geluTanh,
     [](double x, double) { return std::ldexp(std::abs(x), -12) + std::ldexp(std::abs(x), -22); }},
    {"gelu_erf", false, geluErf, [](double x, double) { return std::ldexp(std::abs(x), -22); }},
};

using MathFunctions = KernelTest;

TEST_F(MathFunctions, ErrorsAreAsStated) {
  constexpr int kCount = 20000;
  const Variant kernel = mathKernel();
  const int threads = kernel["kThreads"];
  TestArray x = random(DType::F32, kCount, 0, 3), positive = random(DType::F32, kCount, 0, 8);
  TestArray out = output(DType::F32, std::size(functions) * kCount);
  for (int i = 0; i < kCount; ++i) {
    positive.set(i, std::exp2(positive[i]));
    if (i % 2 == 0) // of all magnitudes
      x.set(i, std::copysign(std::min(std::exp2(x[i]), 16.0), i % 4 - 1));
  }
  run(kernel, {ceilDivide(kCount, threads)}, threads, 0, {out}, x, positive, out, kCount);
  for (const auto &[row, function] : llvm::enumerate(functions)) {
    const TestArray &operands = function.ofPositive ? positive : x;
    int wrong = 0, firstWrong = 0;
    for (int i = 0; i < kCount; ++i) {
      const double exact = function.exact(operands[i]);
      const bool isRight =
          std::abs(out[row * kCount + i] - exact) <= function.largestError(operands[i], exact); // false for NaN
      if (!isRight && wrong++ == 0)
        firstWrong = i;
    }
    EXPECT_EQ(wrong, 0) << function.name << " of " << operands[firstWrong] << ": got "
                        << out[row * kCount + firstWrong];
  }
}

} // namespace
} // namespace kiln
