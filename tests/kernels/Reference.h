//===- Reference.h - expected results of kernels, in double ---------------===//
//
// Beside the values, every function returns the magnitude of their terms: Σ |a||b| for a product. Rounding errors of a
// sum are proportional to this and not to the result, so a test allows a multiple of it.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "support/ADT.h"

namespace kiln {

struct Expectation {
  std::vector<double> values;
  std::vector<double> magnitudes;

  explicit Expectation(size_t size) : values(size), magnitudes(size) {}

  size_t size() const { return values.size(); }
  void add(size_t at, double term) {
    values[at] += term;
    magnitudes[at] += std::abs(term);
  }
};

/// a[rows, depth] · weight, which is [cols, depth] if `transposed`, else [depth, cols].
Expectation matmul(ArrayRef<double> a, ArrayRef<double> weight, int rows, int cols, int depth, bool transposed);

/// Layer normalisation of rows of `weight.size()` elements, eps 1e-5.
Expectation layerNorm(ArrayRef<double> x, ArrayRef<double> weight, ArrayRef<double> bias);

/// Adds bias[col] to every row.
void addBias(Expectation &x, ArrayRef<double> bias);

/// Adds element by element.
void addElements(Expectation &x, ArrayRef<double> y);

double geluTanh(double x);
double geluErf(double x);

/// Applies f, whose slope is at most about 1, to every value.
void apply(Expectation &x, function_ref<double(double)> f);

/// Softmax of scores[first, end); zero elsewhere. If all scores are -inf, which means masked, all results are zero. A
/// score of +inf makes all of them NaN.
std::vector<double> softmax(ArrayRef<double> scores, int first, int end);

/// One query of attention: Σ softmax(0.125 · q · k[key, :]) v[key, :] over keys [first, end), added to
/// out[at .. at + q.size()).
void attend(ArrayRef<double> query, ArrayRef<double> keys, ArrayRef<double> values, int first, int end,
            Expectation &out, size_t at);

} // namespace kiln
