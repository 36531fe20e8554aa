//===- choice.cuh - the arithmetic of choosing a token ------------------------===//
//
// The kernel of sample/sample.cuh and the runtime's Sampler, which runs on the host, share this header, so that both
// choose the same token from the same logits. A probability is an integer weight: sums of integers are the same in
// every order, on every machine. The few floating-point operations each round once, and a compiler cannot contract
// them.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "device/base.cuh"
#include "device/philox.cuh"

namespace kiln {

/// A key with the order of floats, where -0 equals 0. NaN has no place in the order.
KILN_DEVICE constexpr u32 orderedKey(float value) {
  const u32 bits = __builtin_bit_cast(u32, value);
  if (bits == 0x80000000u)
    return 0x80000000u;
  return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}
/// The float of a key.
KILN_DEVICE constexpr float valueOfKey(u32 key) {
  return __builtin_bit_cast(float, key & 0x80000000u ? key & 0x7fffffffu : ~key);
}

constexpr u32 kInfinityKey = 0xff800000u, kMinusInfinityKey = 0x007fffffu;

/// The upper 64 bits of the product.
KILN_DEVICE constexpr u64 multiplyHigh(u64 a, u64 b) {
  const u64 aLow = u32(a), aHigh = a >> 32, bLow = u32(b), bHigh = b >> 32;
  const u64 middle = aHigh * bLow + (aLow * bLow >> 32);
  return aHigh * bHigh + (middle >> 32) + ((aLow * bHigh + u32(middle)) >> 32);
}

/// 2^-x in units of 2^-32, for x = fraction / 2^32: a polynomial of degree 6 through the Chebyshev nodes of [0, 1]; the
/// error is at most 2^-28.
KILN_DEVICE constexpr u32 exp2OfMinus(u32 fraction) {
  constexpr u32 coefficients[] = {0xfffffffau, 0xb17215b2u, 0x3d7f577eu, 0x0e34a75bu,
                                  0x0273d361u, 0x00539803u, 0x00072a3cu};
  u32 value = coefficients[6];
  for (int i = 5; i >= 0; --i)
    value = coefficients[i] - u32(u64(value) * fraction >> 32);
  return value;
}

/// e^((logit - largest) / temperature) in units of 2^-40: the weight of a token relative to the most probable one.
/// `scale` is 2^24 / (temperature ln 2) and finite. Weights below one unit are zero.
KILN_DEVICE constexpr u64 tokenWeight(float logit, float largest, float scale) {
  // The negative exponent, with 24 bits of fraction. From 41 on, the weight is zero.
  const float exponent = (largest - logit) * scale;
  if (!(exponent < float(u32(41) << 24)))
    return 0;
  const u32 fixed = u32(exponent);
  return (u64(exp2OfMinus(fixed << 8)) << 8) >> (fixed >> 24);
}

/// The weight that the most probable tokens must reach under top-p, given the `total` of all. `topP` is p in units of
/// 2^-64.
KILN_DEVICE constexpr u64 topPWeight(u64 topP, u64 total) { return max<u64>(multiplyHigh(topP, total), 1); }

/// The random number of a step of a sequence, uniform in 64 bits.
KILN_DEVICE constexpr u64 randomNumber(u64 seed, u64 sequence, u64 step) {
  const PhiloxWords random = philox(step, sequence, seed);
  return u64(random.words[0]) << 32 | random.words[1];
}

/// Uniform in 0 .. total - 1. The chosen token is the first, in order of id, whose cumulative weight exceeds it.
KILN_DEVICE constexpr u64 drawnWeight(u64 random, u64 total) { return multiplyHigh(random, total); }

} // namespace kiln
