//===- Rewrite.h - changes to IR that several passes make -----------------===//
#pragma once

#include "ir/IR.h"

namespace kiln {

/// The op that computes `value`, if nothing else uses it; or null.
Op *soleProducer(const Value &value);
/// The op that computes `value`, if it has this kind and nothing else uses the value; otherwise null.
Op *soleProducer(const Value &value, OpKind kind);

/// The group of QK^T, its scales and the given causal mask; empty if other ops stand between them.
SmallVector<Op *, 8> maskedScores(Op &mask);

/// Whether `group` (ops of one block, in order) can become one fused op at the place of its last op: nothing
/// between needs what the group computes or writes a state that the group reads.
bool canFuse(ArrayRef<Op *> group);

/// Moves `group`, plain ops or fused regions of one block in any order, into one fused region at the place of the
/// last one. Results with users outside are yielded, under the names that they had. The region is named after its
/// ops (`matmul_bias_gelu`), its location is that of its anchor. canFuse(group) must hold.
Op *fuseOps(ArrayRef<Op *> group);

/// Appends copies of the ops of `from` to `to`, those of fused regions included. `mapped` has what takes the place of
/// values in the copies, and gets the copies' results; other values stay as they are.
void copyOps(const Block &from, Block &to, DenseMap<const Value *, Value *> &mapped);

/// A copy of the function, which is not in the module yet.
std::unique_ptr<Function> copyFunction(const Function &function);

/// The layernorm in a region that only the region's one matmul reads, or null.
Op *fusedNorm(const Op &op);

/// Infers result types anew for every op of the block, in order, after some operand changed its type.
/// Error: an op that the new types do not fit.
Error refreshTypes(Block &block);

} // namespace kiln
