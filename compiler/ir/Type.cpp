#include "ir/Type.h"

namespace kiln {

Expr Type::elements() const {
  Expr product(1);
  for (const Dim &dim : shape)
    product = product * dim.expr();
  return product;
}

std::optional<int64_t> Type::largestBytes() const {
  int64_t bytes = dtypeSize(dtype);
  for (const Dim &dim : shape)
    if (__builtin_mul_overflow(bytes, dim.upperBound(), &bytes) || bytes > int64_t(1) << 48)
      return std::nullopt;
  return bytes;
}

std::string Type::str() const {
  std::string text = dtypeName(dtype).str() + "[";
  for (const auto &[i, dim] : llvm::enumerate(shape))
    text += (i ? "," : "") + dim.str();
  return text + "]";
}

} // namespace kiln
