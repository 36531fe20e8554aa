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

/// IEEE 754 binary16 and bfloat16, rounded to nearest even; NaN stays NaN.
uint16_t toF16(float value);
uint16_t toBF16(float value);
float fromF16(uint16_t bits);
inline float fromBF16(uint16_t bits) { return __builtin_bit_cast(float, static_cast<uint32_t>(bits) << 16); }

} // namespace kiln
