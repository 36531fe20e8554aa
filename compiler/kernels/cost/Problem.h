//===- Problem.h - the extents of a kernel's computation ------------------===//
#pragma once

#include "ir/IR.h"

namespace kiln {

/// rows × cols outputs, each a sum over depth. Extents that the plan fixes are constants.
struct MatmulProblem {
  Expr rows, cols, depth, batch = 1;
  bool transposed = false; ///< the right operand is [cols, depth]
};

/// The extents of an op whose anchor is a matmul, qk or pv. Columns that a slice drops are not computed.
MatmulProblem matmulProblem(const Op &op);

/// The columns of a product that its kernel computes: all, or those that a slice keeps which is its only reader.
Dim computedColumns(const Value &product);

/// Kernels of a product hand columns to their epilogue as the widest vectors that divide those which they compute, up
/// to this: 8 in tensor cores, else 4.
int64_t mostOutputVec(const Op &product);
/// Whether a move behind the product puts all of such a vector in one place or nowhere. The kernel decides by the
/// vector's first column.
bool keepsVectorsWhole(const Op &move, const Op &product);

/// Attention of `queries` tokens over `keys` keys in every head.
struct AttentionProblem {
  Expr batch, heads, queries, keys;
  int64_t headSize = 0, elementBytes = 0;
  int64_t window = 0; ///< the most keys that a query sees; 0: all
};

/// The keys of each of so many ranges of them with sums of their own, but of the last one, which has the rest; 0: there
/// is one range. Always the same for a model, whatever the call has.
int64_t keysOfRange(const Op &op, int64_t ranges);

/// The upper bound of the number of keys that one of `queries` queries sees on average.
double visibleKeys(const AttentionProblem &problem, double queries);

/// Whether the op is a whole attention, causal, with a head size that the templates support.
bool isFusedAttention(const Op &op);
/// Whether an attention has few queries per sequence, fixed in number: one, or those of @verify.
bool hasFewQueries(const Op &op);
/// Whether tensor cores can run it: it has many queries and 16-bit elements, and only a positive constant factor
/// between product and mask.
bool isTensorAttention(const Op &op);
/// Whether the op is QK^T with its scales and a causal mask without positions, with a known head size.
bool isMaskedScores(const Op &op);
/// The extents of an op that is an attention.
AttentionProblem attentionProblem(const Op &op);
/// Whether the op hands out statistics of its rows by groups of columns, or merges those of other rows.
bool usesGroups(const Op &op);
/// Whether the op is a product that computes statistics of rows beside it: mean and reciprocal deviation of rows in
/// memory.
bool computesStatistics(const Op &op);
/// Whether the op is a product of which each rank has a part, and whose kernel adds up those of all ranks.
bool sumsParts(const Op &op);
/// Whether the left operand of the op's matmul lies in memory: no op of the same region computes it.
bool hasLeftOperandInMemory(const Op &op);
/// The op of this kind in a region, or null.
const Op *findInRegion(const Op &fused, OpKind kind);

/// Whether a tensor [B, T, …] of rank 3 has one token per sequence, as in decode.
bool hasOneToken(const Type &type);
/// The tokens of each sequence in @verify; 1 if there is no such function with a fixed number of them.
int64_t verifiedTokens(const Module &module);
/// Whether a tensor [B, T, …] of rank 3 that the op uses has few tokens per sequence, fixed in number: one, or those of
/// @verify.
bool hasFewTokens(const Op &op, const Type &type);
/// Whether the op is a matmul of few tokens per sequence.
bool isProductOfFewTokens(const Op &op);
/// Whether the positions of a causal mask are the lengths of the call's prompts, as hoist-last-row makes it: so its
/// only query is the last of a prompt, and all keys are those of the call.
bool isAtLengths(const Op &mask);
/// Whether the op is attention of one token a sequence over a cache, so that the tokens in the cache, pastTokens, may
/// decide about its kernel.
bool attendsToCache(const Op &op);
/// Whether the op is of @decode or @verify in a module with both. A row must then have the same bits in both, so they
/// run by the same kernels in the same configurations, or in those that give a row the same bits.
bool isVerified(const Op &op);

/// The tensor whose elements a kernel for one function of every element visits: the operand that the op transforms or
/// moves; the result of ops that gather it.
const Value &walkedValue(const Op &op);

/// Product of all extents but the last.
Expr rowCount(const Type &type);

bool isPowerOfTwo(int64_t value);
/// The widest power of two up to `limit` that divides `extent`, as in shape.cuh of the templates.
int64_t widestVector(int64_t extent, int64_t limit);

/// Value of a formula at given dims; formulas of verified modules have one.
int64_t valueAt(const Expr &expr, const DimBinding &dims);

/// Every dim of the op's module at its lower, or at its upper bound, which that of its function may lower.
DimBinding lowerBounds(const Op &op);
DimBinding upperBounds(const Op &op);
/// The upper bounds for which the op's kernel is chosen. In a module with @verify, an op of @decode has as many
/// sequences there as gives it the rows of its counterpart in @verify.
DimBinding boundsToChooseFor(const Op &op);

/// The number of rows of an op, by which its variants are chosen: the product of the symbolic dims of its anchor's
/// result. It is B·T for prompts, and B with one token per sequence.
Expr rowsOf(const Op &op);
/// The upper bounds of the dims, with sequences and tokens reduced so that the op has `rows` rows: the least number
/// from there on if sequences of one length cannot have as many, the most that it can have if that is less. `tokens`:
/// the most of a sequence; 0: any number.
DimBinding boundsForRows(const Op &op, int64_t rows, int64_t tokens = 0);

/// The module's dim of the tokens of a sequence, if the op's rows are counted by it: those of prompts. Null otherwise.
const DimSymbol *tokensOfRows(const Op &op);

} // namespace kiln
