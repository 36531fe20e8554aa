//===- numeric.cuh - 16-bit storage types ------------------------------------===//
//
// bf16 and f16 are storage types; arithmetic is done in float. Conversions to them round to nearest even, overflow to
// infinity, keep subnormals, and turn every NaN into 0x7fff, like the GPU's cvt instructions.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "device/base.cuh"

namespace kiln {

/// The bits of a value as another type of the same size.
template <class To, class From> KILN_DEVICE constexpr To bitCast(From value) { return __builtin_bit_cast(To, value); }

/// bfloat16: the upper half of a float.
struct bf16 {
  u16 bits;
  KILN_DEVICE explicit operator float() const { return bitCast<float>(static_cast<u32>(bits) << 16); }
};

/// IEEE 754 binary16.
struct f16 {
  u16 bits;
  KILN_DEVICE explicit operator float() const;
};

#if defined(__CUDACC__)

KILN_DEVICE f16::operator float() const {
  float result;
  asm("cvt.f32.f16 %0, %1;" : "=f"(result) : "h"(bits));
  return result;
}

/// The bits of `value` rounded to bf16 or f16.
KILN_DEVICE u16 roundToBits(float value, bf16) {
  u16 result;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(result) : "f"(value));
  return result;
}
KILN_DEVICE u16 roundToBits(float value, f16) {
  u16 result;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(result) : "f"(value));
  return result;
}

/// Rounds two values into one word, `low` in the lower half, by one instruction.
KILN_DEVICE u32 roundPairToBits(float low, float high, bf16) {
  u32 result;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(result) : "f"(high), "f"(low));
  return result;
}
KILN_DEVICE u32 roundPairToBits(float low, float high, f16) {
  u32 result;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(result) : "f"(high), "f"(low));
  return result;
}

#else

KILN_DEVICE f16::operator float() const {
  const u32 sign = static_cast<u32>(bits & 0x8000) << 16;
  const u32 exponent = bits >> 10 & 0x1f;
  const u32 mantissa = bits & 0x3ff;
  if (exponent == 0) { // zero or subnormal: mantissa times 2^-24, exactly
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return bitCast<float>(bitCast<u32>(magnitude) | sign);
  }
  const u32 rebiased = exponent == 0x1f ? 0xff : exponent - 15 + 127;
  return bitCast<float>(sign | rebiased << 23 | mantissa << 13);
}

KILN_DEVICE u16 roundToBits(float value, bf16) {
  const u32 bits = bitCast<u32>(value);
  if ((bits & 0x7fffffff) > 0x7f800000)
    return 0x7fff;
  // Rounds to nearest even: adds just under half of the dropped part, plus one if the kept part is odd.
  return static_cast<u16>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

KILN_DEVICE u16 roundToBits(float value, f16) {
  const u32 bits = bitCast<u32>(value);
  const u32 sign = bits >> 16 & 0x8000;
  const u32 magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000)
    return 0x7fff;
  if (magnitude >= 0x477ff000) // from 65520 on, the value is nearer to 2^16 than to the largest f16
    return static_cast<u16>(sign | 0x7c00);
  if (magnitude < 0x38800000) {
    // The last place of an f16 below 2^-14 is 2^-24, like that of the float 0.5: the addition rounds.
    const float shifted = bitCast<float>(magnitude) + 0.5f;
    return static_cast<u16>(sign | (bitCast<u32>(shifted) - bitCast<u32>(0.5f)));
  }
  const u32 rebiased = magnitude - ((127 - 15) << 23);
  return static_cast<u16>(sign | (rebiased + 0xfff + (rebiased >> 13 & 1)) >> 13);
}

template <class T> KILN_DEVICE u32 roundPairToBits(float low, float high, T type) {
  return roundToBits(low, type) | static_cast<u32>(roundToBits(high, type)) << 16;
}

#endif

/// The value of a stored element.
KILN_DEVICE float toFloat(float value) { return value; }
KILN_DEVICE float toFloat(bf16 value) { return float(value); }
KILN_DEVICE float toFloat(f16 value) { return float(value); }

/// `value` rounded to an element of type T (float, bf16 or f16).
template <class T> KILN_DEVICE T fromFloat(float value) { return T{roundToBits(value, T{})}; }
template <> KILN_DEVICE float fromFloat<float>(float value) { return value; }

/// Conversions between a word of two 16-bit elements and their values.
template <class T> KILN_DEVICE float lowToFloat(u32 pair) { return float(T{static_cast<u16>(pair)}); }
template <class T> KILN_DEVICE float highToFloat(u32 pair) { return float(T{static_cast<u16>(pair >> 16)}); }
template <class T> KILN_DEVICE u32 pairFromFloat(float low, float high) { return roundPairToBits(low, high, T{}); }

} // namespace kiln
