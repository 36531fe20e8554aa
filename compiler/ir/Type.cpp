#include "ir/Type.h"

namespace kiln {

Expr Type::elements() const {
  Expr product(1);
  for (const Dim &dim : shape)
    product = product * dim.expr();
  return product;
}

std::string Type::str() const {
  std::string text = dtypeName(dtype).str() + "[";
  for (const auto &[i, dim] : llvm::enumerate(shape))
    text += (i ? "," : "") + dim.str();
  return text + "]";
}

} // namespace kiln
