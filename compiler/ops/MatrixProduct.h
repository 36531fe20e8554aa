//===- MatrixProduct.h - matrix products of the reference executor ----------===//
#pragma once

#include "support/ADT.h"

namespace kiln {

/// C[rows,cols] = A[rows,depth] · B, where B is [depth,cols], or [cols,depth] if `transposeB`. Dense, row-major, on
/// all cores; every output's sum is computed by one thread, so results do not depend on how many there are.
template <class Real>
void matrixProduct(const Real *a, const Real *b, Real *c, int64_t rows, int64_t cols, int64_t depth, bool transposeB);

/// Computes `count` products that are stored one after the other, spread over the cores.
template <class Real>
void batchedMatrixProduct(const Real *a, const Real *b, Real *c, int64_t count, int64_t rows, int64_t cols,
                          int64_t depth, bool transposeB);

} // namespace kiln
