//===- Verifier.h - what makes IR well-formed -------------------------------===//
#pragma once

#include "ir/IR.h"

namespace kiln {

/// `LOC: error: matmul: MESSAGE`, of a fused op `LOC: error: fused @matmul_bias: MESSAGE`.
Error opError(const Op &op, const Twine &message);

/// Checks operand counts and kinds and the attributes against the op's record, then infers the result's type.
/// The op must have exactly one result by its record.
Expected<Type> inferType(const Op &op);

/// Checks a module: attributes of module and functions known and of their kinds, names unique in their scope, dims and
/// recipes consistent, every op as its record says with the types that inference gives, definitions before uses,
/// terminators at the ends only, fused regions one level deep, and each state written at most once a function and not
/// read after. Error: every function's first violation.
Error verify(const Module &module);

} // namespace kiln
