//===- math.cuh - elementary and activation functions -------------------------===//
//
// Functions of a float; each also works on a Vec<float, V>, element by element. Activations have the same names as in
// the IR, because generated code is read beside it. Call them unqualified from namespace kiln.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "device/base.cuh"
#include "device/numeric.cuh"
#include "device/vec.cuh"

namespace kiln {

KILN_DEVICE float infinity() { return bitCast<float>(0x7f800000u); }

#if defined(__CUDACC__)

/// e^x, 2 ulp.
KILN_DEVICE float exp(float x) { return ::expf(x); }
/// 2^x, 2 ulp; subnormal results are zero.
KILN_DEVICE float exp2(float x) {
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}
/// Natural logarithm, 1 ulp.
KILN_DEVICE float log(float x) { return ::logf(x); }
/// 1 / sqrt(x), 2 ulp.
KILN_DEVICE float rsqrt(float x) { return ::rsqrtf(x); }
KILN_DEVICE float tanh(float x) { return ::tanhf(x); }
/// tanh(x), within 2^-11 of it; one instruction of the special function units.
KILN_DEVICE float approximateTanh(float x) {
  float result;
  asm("tanh.approx.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}
KILN_DEVICE float erf(float x) { return ::erff(x); }
/// a * b + c, rounded once.
KILN_DEVICE float fma(float a, float b, float c) { return ::fmaf(a, b, c); }
/// The minimum and the maximum; of a number and a NaN, the number.
KILN_DEVICE float fmin(float a, float b) { return ::fminf(a, b); }
KILN_DEVICE float fmax(float a, float b) { return ::fmaxf(a, b); }
/// 1 / x, 1 ulp; subnormal operands and results are zero.
KILN_DEVICE float reciprocal(float x) {
  float result;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}

#else

KILN_DEVICE float exp(float x) { return __builtin_expf(x); }
KILN_DEVICE float exp2(float x) { return __builtin_exp2f(x); }
KILN_DEVICE float log(float x) { return __builtin_logf(x); }
KILN_DEVICE float rsqrt(float x) { return 1.0f / __builtin_sqrtf(x); }
KILN_DEVICE float tanh(float x) { return __builtin_tanhf(x); }
KILN_DEVICE float approximateTanh(float x) { return __builtin_tanhf(x); }
KILN_DEVICE float erf(float x) { return __builtin_erff(x); }
KILN_DEVICE float fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
KILN_DEVICE float fmin(float a, float b) { return __builtin_fminf(a, b); }
KILN_DEVICE float fmax(float a, float b) { return __builtin_fmaxf(a, b); }
KILN_DEVICE float reciprocal(float x) { return 1.0f / x; }

#endif

/// 0.5 x (1 + tanh(u)) with u = sqrt(2/pi) (x + 0.044715 x^3). As 0.5 (1 + tanh(u)) = 1 / (1 + e^(-2u)), it
/// takes one exponential and one division, and loses no digits where tanh(u) is close to -1.
KILN_DEVICE float gelu_tanh(float x) {
  // The factors of -2 u, times log2(e).
  constexpr float kLinear = -2.3022082f, kCubic = -0.10294324f;
  const float exponent = x * fma(x * x, kCubic, kLinear);
  return x * reciprocal(1.0f + exp2(exponent));
}

/// The same within 2^-12 |x|, for results that are rounded to bf16, which moves large ones more. It takes one
/// instruction of the special function units where gelu_tanh takes two: behind a product these take longer than all
/// others.
KILN_DEVICE float gelu_tanh_bf16(float x) {
  constexpr float kLinear = 0.79788456f, kCubic = 0.035677408f; // the factors of u
  const float half = 0.5f * x;
  return fma(half, approximateTanh(x * fma(x * x, kCubic, kLinear)), half);
}

/// 0.5 x (1 + erf(x / sqrt(2))).
KILN_DEVICE float gelu_erf(float x) { return 0.5f * x * (1.0f + erf(x * 0.70710678f)); }

/// max(x, 0); NaN stays NaN.
KILN_DEVICE float relu(float x) { return x < 0.0f ? 0.0f : x; }

template <int V> KILN_DEVICE Vec<float, V> exp(const Vec<float, V> &x) {
  return x.map([](float e) { return exp(e); });
}
template <int V> KILN_DEVICE Vec<float, V> exp2(const Vec<float, V> &x) {
  return x.map([](float e) { return exp2(e); });
}
template <int V> KILN_DEVICE Vec<float, V> log(const Vec<float, V> &x) {
  return x.map([](float e) { return log(e); });
}
template <int V> KILN_DEVICE Vec<float, V> rsqrt(const Vec<float, V> &x) {
  return x.map([](float e) { return rsqrt(e); });
}
template <int V> KILN_DEVICE Vec<float, V> reciprocal(const Vec<float, V> &x) {
  return x.map([](float e) { return reciprocal(e); });
}
template <int V> KILN_DEVICE Vec<float, V> tanh(const Vec<float, V> &x) {
  return x.map([](float e) { return tanh(e); });
}
template <int V> KILN_DEVICE Vec<float, V> approximateTanh(const Vec<float, V> &x) {
  return x.map([](float e) { return approximateTanh(e); });
}
template <int V> KILN_DEVICE Vec<float, V> erf(const Vec<float, V> &x) {
  return x.map([](float e) { return erf(e); });
}
template <int V>
KILN_DEVICE Vec<float, V> fma(const Vec<float, V> &a, const Vec<float, V> &b, const Vec<float, V> &c) {
  Vec<float, V> result;
#pragma unroll
  for (int i = 0; i < V; ++i)
    result[i] = fma(a[i], b[i], c[i]);
  return result;
}
template <int V> KILN_DEVICE Vec<float, V> fma(float a, const Vec<float, V> &b, const Vec<float, V> &c) {
  return fma(Vec<float, V>::fill(a), b, c);
}
template <int V> KILN_DEVICE Vec<float, V> fmin(const Vec<float, V> &a, const Vec<float, V> &b) {
  return a.zip(b, [](float x, float y) { return fmin(x, y); });
}
template <int V> KILN_DEVICE Vec<float, V> fmax(const Vec<float, V> &a, const Vec<float, V> &b) {
  return a.zip(b, [](float x, float y) { return fmax(x, y); });
}
template <int V> KILN_DEVICE Vec<float, V> gelu_tanh(const Vec<float, V> &x) {
  return x.map([](float e) { return gelu_tanh(e); });
}
template <int V> KILN_DEVICE Vec<float, V> gelu_tanh_bf16(const Vec<float, V> &x) {
  return x.map([](float e) { return gelu_tanh_bf16(e); });
}
template <int V> KILN_DEVICE Vec<float, V> gelu_erf(const Vec<float, V> &x) {
  return x.map([](float e) { return gelu_erf(e); });
}
template <int V> KILN_DEVICE Vec<float, V> relu(const Vec<float, V> &x) {
  return x.map([](float e) { return relu(e); });
}

} // namespace kiln
