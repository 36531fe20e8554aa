//===- choice.cuh - the arithmetic of choosing a token ------------------------===//
//
// The kernel of sample/sample.cuh and the runtime's Sampler, which runs on the host, share this header, so that both
// choose the same token from the same logits.
//
// A token's probability is 2^-exponent of the most probable token's, and the exponent is an integer. top-p adds
// probabilities as integer weights: sums of integers are the same in every order, on every machine. The drawn token has
// the largest sum of exponent (negative) and noise (sample/noise.cuh). Only the exponent takes floating-point
// operations, two of them, which each round once and which a compiler cannot contract.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "device/base.cuh"
#include "sample/noise.cuh"

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

/// The negative exponent of a token's probability relative to that of the most probable token: (largest - logit) /
/// (temperature ln 2), in units of 2^-24. `scale` is 2^24 / (temperature ln 2) and finite. Larger exponents count as
/// the largest one: even the largest noise does not make up for it.
constexpr u32 kLargestExponent = u32(72) << 24;
static_assert(kLargestExponent > u32(kMostNoise - kLeastNoise));
KILN_DEVICE constexpr u32 tokenExponent(float logit, float largest, float scale) {
  const float exponent = (largest - logit) * scale;
  return exponent < float(kLargestExponent) ? u32(exponent) : kLargestExponent;
}

/// The exponents from a token to another one and from there to the largest logit differ in sum from the token's own by
/// no more than this, unless they exceed the largest exponent: by roundings of all three, each by 2^-23 of its value
/// and a unit at most.
constexpr u32 kExponentRounding = 3 * (kLargestExponent >> 23) + 3;

/// The probability of a token relative to the most probable one, in units of 2^-40. Weights below one unit are zero.
KILN_DEVICE constexpr u64 weightOfExponent(u32 exponent) {
  return exponent < u32(41) << 24 ? (u64(exp2OfMinus(exponent << 8)) << 8) >> (exponent >> 24) : 0;
}

/// The weight that the most probable tokens must reach under top-p, given the `total` of all. `topP` is p in units of
/// 2^-64.
KILN_DEVICE constexpr u64 topPWeight(u64 topP, u64 total) { return max<u64>(multiplyHigh(topP, total), 1); }

/// A key and an id in one word: of two words, the larger one has the larger key, or the lower id among equal keys. 0
/// stands for none.
KILN_DEVICE constexpr u64 packCandidate(u32 key, u32 id) { return u64(key) << 32 | ~id; }
KILN_DEVICE constexpr u32 keyOfCandidate(u64 candidate) { return u32(candidate >> 32); }
KILN_DEVICE constexpr u32 idOfCandidate(u64 candidate) { return ~u32(candidate); }

/// The drawing of one token from a row.
struct TokenDraw {
  float largest;    ///< logit of the row
  float scale;      ///< as of tokenExponent
  u32 mostExponent; ///< that min-p keeps; kLargestExponent: off
  NoiseKey noise;

  KILN_DEVICE u32 exponentOf(float logit) const { return tokenExponent(logit, largest, scale); }
  KILN_DEVICE u64 weightOf(float logit) const { return weightOfExponent(exponentOf(logit)); }

  /// Whether min-p keeps the token.
  KILN_DEVICE bool isKept(float logit) const { return exponentOf(logit) <= mostExponent; }
  /// The drawn token is the one with the largest candidate, of those that are kept.
  KILN_DEVICE u64 candidate(float logit, u32 id, i32 noise) const {
    return packCandidate(keyOfScore(noise - i32(exponentOf(logit))), id);
  }

  /// A key with the order of scores, which are log2(probability) + noise in units of 2^-24.
  KILN_DEVICE static constexpr u32 keyOfScore(i32 score) { return u32(score) ^ 0x80000000u; }
  KILN_DEVICE static constexpr i32 scoreOfKey(u32 key) { return i32(key ^ 0x80000000u); }
};

} // namespace kiln
