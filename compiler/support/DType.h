//===- DType.h - element types ----------------------------------------------===//
#pragma once

#include "support/ADT.h"

namespace kiln {

enum class DType : uint8_t { F32, F16, BF16, I32 };

/// `f32`, `f16`, `bf16`, `i32`: the spelling of IR, plans and generated kernel names.
StringRef dtypeName(DType dtype);
std::optional<DType> parseDType(StringRef name);

/// Bytes of one element.
int64_t dtypeSize(DType dtype);

inline bool isFloat(DType dtype) { return dtype != DType::I32; }

/// IEEE 754 binary16 and bfloat16, rounded to nearest even; NaN stays NaN. Inline, since weights are converted
/// by the billion.
inline uint16_t toF16(float value) { return __builtin_bit_cast(uint16_t, static_cast<_Float16>(value)); }
inline float fromF16(uint16_t bits) { return static_cast<float>(__builtin_bit_cast(_Float16, bits)); }
inline uint16_t toBF16(float value) {
  auto bits = __builtin_bit_cast(uint32_t, value);
  // Adding just under half of the dropped part, plus one when the kept part is odd, rounds to nearest even. A choice
  // and no branch: loops over this become vector code.
  uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
  uint32_t quiet = bits >> 16 | 0x40;
  return static_cast<uint16_t>(value != value ? quiet : rounded);
}
inline float fromBF16(uint16_t bits) { return __builtin_bit_cast(float, static_cast<uint32_t>(bits) << 16); }

} // namespace kiln
