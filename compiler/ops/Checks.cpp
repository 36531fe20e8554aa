#include "ops/Checks.h"

namespace kiln {

static Error wrong(const Op &op, unsigned operand, const Twine &what) {
  return opError(op, "expected operand '" + op.def().operands[operand].name + "' " + what + ", got " +
                         op.operand(operand)->type.str());
}

Error expectRank(const Op &op, unsigned operand, size_t rank) {
  return op.operand(operand)->type.rank() == rank ? Error::success() : wrong(op, operand, "of rank " + Twine(rank));
}

Error expectFloat(const Op &op, unsigned operand) {
  return isFloat(op.operand(operand)->type.dtype) ? Error::success() : wrong(op, operand, "of a floating-point type");
}

Error expectType(const Op &op, unsigned operand, const Type &type) {
  return op.operand(operand)->type == type ? Error::success() : wrong(op, operand, "of type " + type.str());
}

Error expectFloatShape(const Op &op, unsigned operand, ArrayRef<Dim> shape) {
  if (ArrayRef<Dim>(op.operand(operand)->type.shape) != shape) {
    std::string text = Type(DType::F32, shape).str();
    return wrong(op, operand, "of shape " + StringRef(text).drop_front(3));
  }
  return expectFloat(op, operand);
}

Error expectRows(const Op &op) {
  return op.operand(0)->type.rank() < 2 ? wrong(op, 0, "of rank 2 or more") : expectFloat(op, 0);
}

Type statisticType(const Type &x) { return Type(DType::F32, ArrayRef<Dim>(x.shape).drop_back()); }

AttributeSpec outSpec(StringRef summary) {
  return {"out", Attribute::Kind::Ident, summary, false, {"f32", "f16", "bf16"}};
}

DType outDType(const Op &op, DType like) { return parseDType(op.identAttribute("out")).value_or(like); }

} // namespace kiln
