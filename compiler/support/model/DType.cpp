#include "support/model/DType.h"

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

} // namespace kiln
