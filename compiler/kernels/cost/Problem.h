//===- Problem.h - extents of what a kernel computes ------------------------===//
#pragma once

#include "ir/IR.h"

namespace kiln {

/// rows × cols outputs, each a sum over depth. Extents that the plan fixes are constants.
struct MatmulProblem {
  Expr rows, cols, depth, batch = 1;
  bool transposed = false; ///< the right operand is [cols, depth]
};

/// Of an op whose anchor is a matmul, qk or pv. Columns that a slice drops are not computed.
MatmulProblem matmulProblem(const Op &op);

/// Attention of `queries` tokens over `keys` keys in every head.
struct AttentionProblem {
  Expr batch, heads, queries, keys;
  int64_t headSize = 0, elementBytes = 0;
  int64_t window = 0; ///< keys that a query sees at most; 0: all
};

/// How many keys a query of `queries` sees on average, at most.
double visibleKeys(const AttentionProblem &problem, double queries);

/// Whether the op is a whole attention, causal, of a head size that the templates take.
bool isFusedAttention(const Op &op);
/// Whether tensor cores can run it: of many queries, in 16 bits, with nothing but a positive constant factor between
/// product and mask.
bool isTensorAttention(const Op &op);
/// Whether the op is QK^T with its scales and a causal mask without positions, of a head size that is known.
bool isMaskedScores(const Op &op);
/// Of an op that is an attention.
AttentionProblem attentionProblem(const Op &op);
/// Whether the left operand of the op's matmul lies in memory: no op of the same region computes it.
bool hasLeftOperandInMemory(const Op &op);
/// The op of that kind in a region, or null.
const Op *findInRegion(const Op &fused, OpKind kind);

/// Product of all extents but the last.
Expr rowCount(const Type &type);

bool isPowerOfTwo(int64_t value);
/// The widest power of two up to `limit` that divides `extent`, as shape.cuh of the templates has it.
int64_t widestVector(int64_t extent, int64_t limit);

/// Value of a formula at given dims; formulas of verified modules have one.
int64_t valueAt(const Expr &expr, const DimBinding &dims);

/// Every dim of the op's module at its lower, or at its upper bound.
DimBinding lowerBounds(const Op &op);
DimBinding upperBounds(const Op &op);

/// Rows of an op, by which its variants are chosen: the product of the symbolic dims of its anchor's result. B·T over
/// prompts, B with one token a sequence.
Expr rowsOf(const Op &op);
/// The upper bounds, but of few sequences and tokens, so that the op has `rows` rows if it can have so many, or fewer.
DimBinding boundsForRows(const Op &op, int64_t rows);

} // namespace kiln
