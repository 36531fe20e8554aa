//===- OpTable.h - every op's record ----------------------------------------===//
#pragma once

#include "ir/OpDef.h"

namespace kiln {

// `extern const OpDef matmulOp;` and so on: one record per line of Ops.def.
#define KILN_OP(identifier, mnemonic) extern const OpDef identifier##Op;
#include "ir/Ops.def"

/// All records, indexed by kind.
const OpTable &opTable();

} // namespace kiln
