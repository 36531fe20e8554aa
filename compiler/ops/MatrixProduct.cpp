// Eigen is slow to compile: this is the only file that includes it.
#include "ops/MatrixProduct.h"

#include "support/process/Parallel.h"

#include <Eigen/Core>

namespace kiln {

template <class Real> using Matrix = Eigen::Matrix<Real, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
template <class Real> using ConstView = Eigen::Map<const Matrix<Real>, 0, Eigen::OuterStride<>>;
template <class Real> using View = Eigen::Map<Matrix<Real>, 0, Eigen::OuterStride<>>;

/// Computes columns [first, last) of the product.
template <class Real>
static void productColumns(const Real *a, const Real *b, Real *c, int64_t rows, int64_t cols, int64_t depth,
                           bool transposeB, int64_t first, int64_t last) {
  int64_t width = last - first;
  ConstView<Real> left(a, rows, depth, Eigen::OuterStride<>(depth));
  View<Real> out(c + first, rows, width, Eigen::OuterStride<>(cols));
  if (transposeB) {
    ConstView<Real> right(b + first * depth, width, depth, Eigen::OuterStride<>(depth));
    if (rows == 1) // a matrix-vector product, which Eigen recognises only if both types say so
      out.row(0).transpose().noalias() = right * left.row(0).transpose();
    else
      out.noalias() = left * right.transpose();
  } else {
    ConstView<Real> right(b + first, depth, width, Eigen::OuterStride<>(cols));
    if (rows == 1)
      out.row(0).noalias() = left.row(0) * right;
    else
      out.noalias() = left * right;
  }
}

template <class Real>
void matrixProduct(const Real *a, const Real *b, Real *c, int64_t rows, int64_t cols, int64_t depth, bool transposeB) {
  // The split depends on the shape alone, so that Eigen's blocking and rounding do, too.
  constexpr int64_t chunk = 256;
  bool isSmall = rows * cols * depth < (1 << 16);
  if (isSmall)
    return productColumns(a, b, c, rows, cols, depth, transposeB, 0, cols);
  parallelFor((cols + chunk - 1) / chunk, [&](size_t i) {
    int64_t first = i * chunk;
    productColumns(a, b, c, rows, cols, depth, transposeB, first, std::min(cols, first + chunk));
  });
}

template <class Real>
void batchedMatrixProduct(const Real *a, const Real *b, Real *c, int64_t count, int64_t rows, int64_t cols,
                          int64_t depth, bool transposeB) {
  parallelFor(count, [&](size_t i) {
    productColumns(a + i * rows * depth, b + i * cols * depth, c + i * rows * cols, rows, cols, depth, transposeB, 0,
                   cols);
  });
}

template void matrixProduct(const float *, const float *, float *, int64_t, int64_t, int64_t, bool);
template void matrixProduct(const double *, const double *, double *, int64_t, int64_t, int64_t, bool);
template void batchedMatrixProduct(const float *, const float *, float *, int64_t, int64_t, int64_t, int64_t, bool);
template void batchedMatrixProduct(const double *, const double *, double *, int64_t, int64_t, int64_t, int64_t, bool);

} // namespace kiln
