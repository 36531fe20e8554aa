#include "kernels/Reference.h"

#include <algorithm>
#include <cmath>

namespace kiln {

Expectation matmul(ArrayRef<double> a, ArrayRef<double> weight, int rows, int cols, int depth, bool transposed) {
  Expectation out(static_cast<size_t>(rows) * cols);
  for (int row = 0; row < rows; ++row)
    for (int col = 0; col < cols; ++col)
      for (int k = 0; k < depth; ++k)
        out.add(row * cols + col, a[row * depth + k] * weight[transposed ? col * depth + k : k * cols + col]);
  return out;
}

Expectation layerNorm(ArrayRef<double> x, ArrayRef<double> weight, ArrayRef<double> bias) {
  const size_t cols = weight.size();
  Expectation out(x.size());
  for (size_t row = 0; row < x.size(); row += cols) {
    double mean = 0, variance = 0;
    for (size_t c = 0; c < cols; ++c)
      mean += x[row + c] / cols;
    for (size_t c = 0; c < cols; ++c)
      variance += (x[row + c] - mean) * (x[row + c] - mean) / cols;
    const double rstd = 1 / std::sqrt(variance + 1e-5);
    for (size_t c = 0; c < cols; ++c) {
      out.values[row + c] = (x[row + c] - mean) * rstd * weight[c] + bias[c];
      out.magnitudes[row + c] =
          (std::abs(x[row + c]) + std::abs(mean)) * rstd * std::abs(weight[c]) + std::abs(bias[c]);
    }
  }
  return out;
}

void addBias(Expectation &x, ArrayRef<double> bias) {
  for (size_t i = 0; i < x.size(); ++i)
    x.add(i, bias[i % bias.size()]);
}

void addElements(Expectation &x, ArrayRef<double> y) {
  for (size_t i = 0; i < x.size(); ++i)
    x.add(i, y[i]);
}

double geluTanh(double x) {
  const double u = std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x);
  return x / (1 + std::exp(-2 * u)); // 0.5 x (1 + tanh(u)), which would lose the digits of small results
}
double geluErf(double x) { return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0))); }

void apply(Expectation &x, function_ref<double(double)> f) {
  for (double &value : x.values)
    value = f(value);
}

std::vector<double> softmax(ArrayRef<double> scores, int first, int end) {
  std::vector<double> weights(scores.size());
  double largest = -INFINITY, sum = 0;
  for (int i = first; i < end; ++i)
    largest = std::max(largest, scores[i]);
  if (largest == -INFINITY)
    return weights;
  for (int i = first; i < end; ++i)
    sum += weights[i] = std::exp(scores[i] - largest);
  for (double &weight : weights)
    weight /= sum;
  return weights;
}

void attend(ArrayRef<double> query, ArrayRef<double> keys, ArrayRef<double> values, int first, int end,
            Expectation &out, size_t at) {
  const size_t headSize = query.size();
  std::vector<double> scores(end);
  for (int key = first; key < end; ++key)
    for (size_t d = 0; d < headSize; ++d)
      scores[key] += 0.125 * query[d] * keys[key * headSize + d];
  const std::vector<double> weights = softmax(scores, first, end);
  for (int key = first; key < end; ++key)
    for (size_t d = 0; d < headSize; ++d)
      out.add(at + d, weights[key] * values[key * headSize + d]);
}

} // namespace kiln
