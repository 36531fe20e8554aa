//===- Region.h - the subject of a fused region ---------------------------===//
#pragma once

#include "ir/IR.h"

namespace kiln {

/// The op that gives a region its kind: its contraction (the first of several), else its row-wise op, else its
/// first op. Of a plain op: itself.
const Op *anchor(const Op &op);

/// The state of which a result of a plain or fused op is the new value, in the state's memory; null for other values.
const Value *writtenState(const Value &result);

/// The ops of a region in order, but its terminator.
std::vector<const Op *> opsOf(const Block &region);
/// How many contractions a region has; 0 for a plain op.
size_t contractionsOf(const Op &op);

/// What an op of a function's body computes of which operands, in one text, without the attributes of later stages:
/// layers that are alike have the same.
std::string structureOf(const Op &op);

/// `matmul_bias_gelu`, `attention`: labels of the ops of a region, each once.
std::string regionName(const Block &region);

} // namespace kiln
