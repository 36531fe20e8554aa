//===- Type.h - dims and tensor types ---------------------------------------===//
#pragma once

#include "support/ADT.h"
#include "support/SourceManager.h"
#include "support/model/DType.h"
#include "support/model/Expr.h"

namespace kiln {

/// `dim T : 1..1024`: a size that is known only when the plan runs, within bounds that are known now.
struct DimSymbol {
  std::string name;
  int64_t min = 1;
  int64_t max = 1;
  Location loc;
};

/// One extent of a shape: a constant or a symbol. Dims keep their names; there is no unknown extent.
class Dim {
public:
  Dim(int64_t constant) : value(constant) {}
  Dim(const DimSymbol *symbol) : symbol(symbol) {}

  const DimSymbol *getSymbol() const { return symbol; }
  std::optional<int64_t> asConstant() const { return symbol ? std::nullopt : std::optional(value); }
  int64_t upperBound() const { return symbol ? symbol->max : value; }
  Expr expr() const { return symbol ? Expr::name(symbol->name) : Expr(value); }
  std::string str() const { return symbol ? symbol->name : std::to_string(value); }

  bool operator==(const Dim &other) const { return symbol == other.symbol && value == other.value; }

private:
  const DimSymbol *symbol = nullptr;
  int64_t value = 0;
};

/// `bf16[B,T,768]`.
struct Type {
  DType dtype = DType::F32;
  SmallVector<Dim, 4> shape;

  Type() = default;
  Type(DType dtype, ArrayRef<Dim> shape) : dtype(dtype), shape(shape) {}

  size_t rank() const { return shape.size(); }
  /// The last extent; the type must have rank 1 or more.
  Dim lastDim() const { return shape.back(); }
  Type withDType(DType other) const { return Type(other, shape); }

  Expr elements() const;
  Expr bytes() const { return elements() * Expr(dtypeSize(dtype)); }
  /// Bytes at the dims' upper bounds; nothing past 2^48. No module has larger types, so that arithmetic on sizes does
  /// not overflow.
  std::optional<int64_t> largestBytes() const;
  std::string str() const;

  bool operator==(const Type &other) const { return dtype == other.dtype && shape == other.shape; }
};

} // namespace kiln
