#include "support/DType.h"

#include <cmath>

namespace kiln {

StringRef dtypeName(DType dtype) {
  static constexpr StringRef names[] = {"f32", "f16", "bf16", "i32"};
  return names[static_cast<int>(dtype)];
}

std::optional<DType> parseDType(StringRef name) {
  for (DType dtype : {DType::F32, DType::F16, DType::BF16, DType::I32})
    if (dtypeName(dtype) == name)
      return dtype;
  return std::nullopt;
}

int64_t dtypeSize(DType dtype) { return dtype == DType::F16 || dtype == DType::BF16 ? 2 : 4; }

uint16_t toBF16(float value) {
  uint32_t bits = __builtin_bit_cast(uint32_t, value);
  if (std::isnan(value))
    return static_cast<uint16_t>(bits >> 16 | 0x40);
  // Adding just under half of the dropped part, plus one when the kept part is odd, rounds to nearest even.
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

uint16_t toF16(float value) { return __builtin_bit_cast(uint16_t, static_cast<_Float16>(value)); }

float fromF16(uint16_t bits) { return static_cast<float>(__builtin_bit_cast(_Float16, bits)); }

} // namespace kiln
