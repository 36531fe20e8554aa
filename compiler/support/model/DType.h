//===- DType.h - element types ----------------------------------------------===//
#pragma once

#include "support/ADT.h"

#include <cstring>

namespace kiln {

enum class DType : uint8_t { F32, F16, BF16, I32 };

/// `f32`, `f16`, `bf16` or `i32`: the spelling in IR, plans and names of generated kernels.
StringRef dtypeName(DType dtype);
std::optional<DType> parseDType(StringRef name);

/// The bytes of an element.
int64_t dtypeSize(DType dtype);

inline bool isFloat(DType dtype) { return dtype != DType::I32; }

/// Conversions to and from IEEE 754 binary16 and bfloat16, rounded to nearest even; NaN stays NaN. Inline, since
/// billions of weights are converted.
inline uint16_t toF16(float value) { return __builtin_bit_cast(uint16_t, static_cast<_Float16>(value)); }
inline float fromF16(uint16_t bits) { return static_cast<float>(__builtin_bit_cast(_Float16, bits)); }
inline uint16_t toBF16(float value) {
  auto bits = __builtin_bit_cast(uint32_t, value);
  // Rounds to nearest even: adds just under half of the dropped part, plus one if the kept part is odd. NaN is selected
  // without a branch, so that loops over this are vectorised.
  uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
  uint32_t quiet = bits >> 16 | 0x40;
  return static_cast<uint16_t>(value != value ? quiet : rounded);
}
inline float fromBF16(uint16_t bits) { return __builtin_bit_cast(float, static_cast<uint32_t>(bits) << 16); }

/// Element `i` of an array of this type, at any alignment, as the nearest float.
inline float loadElement(const char *array, DType dtype, int64_t i) {
  auto load = [&](auto element) {
    std::memcpy(&element, array + i * static_cast<int64_t>(sizeof element), sizeof element);
    return element;
  };
  switch (dtype) {
  case DType::F32:
    return load(float());
  case DType::F16:
    return fromF16(load(uint16_t()));
  case DType::BF16:
    return fromBF16(load(uint16_t()));
  case DType::I32:
    return static_cast<float>(load(int32_t()));
  }
  llvm_unreachable("every type is named above");
}

} // namespace kiln
