//===- Verifier.h - checks that IR is well-formed -------------------------===//
#pragma once

#include "ir/IR.h"

namespace kiln {

/// `LOC: error: matmul: MESSAGE`; for a fused op `LOC: error: fused @matmul_bias: MESSAGE`.
Error opError(const Op &op, const Twine &message);

/// Checks operand counts and kinds and the attributes against the op's record, then infers the result's type. By its
/// record the op must have exactly one result.
Expected<Type> inferType(const Op &op);

/// Checks a module: attributes of module and functions known and of their kinds, names unique in their scope, dims and
/// recipes consistent, every op conforms to its record and has the types that inference gives, definitions before uses,
/// terminators only at the ends of blocks, fused regions one level deep, and each state written at most once per
/// function and not read afterwards. Error: every function's first violation.
Error verify(const Module &module);

} // namespace kiln
