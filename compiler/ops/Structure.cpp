// fused, yield and return: ops that give a function its structure and compute nothing themselves.
#include "ops/OpTable.h"

namespace kiln {

const OpDef fusedOp = {
    .kind = OpKind::fused,
    .mnemonic = "fused",
    .summary = "A region that one kernel computes; reads outer values, yields its results.",
};

const OpDef yieldOp = {
    .kind = OpKind::yield,
    .mnemonic = "yield",
    .summary = "Ends a fused region with its results.",
    .traits = Trait::Terminator,
    .operands = SmallVector<OperandSpec, 4>(8, OperandSpec{"value", "a result of the region", true}),
};

const OpDef retOp = {
    .kind = OpKind::ret,
    .mnemonic = "return",
    .summary = "Ends a function with its results.",
    .traits = Trait::Terminator,
    .operands = SmallVector<OperandSpec, 4>(8, OperandSpec{"value", "a result of the function", true}),
};

} // namespace kiln
