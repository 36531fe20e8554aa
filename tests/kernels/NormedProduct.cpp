#include "kernels/NormedProduct.h"

#include <cmath>

namespace kiln {

static double roundTo(DType type, double value) {
  auto single = static_cast<float>(value);
  return type == DType::BF16 ? fromBF16(toBF16(single)) : fromF16(toF16(single));
}

void NormedProduct::makeKinds() {
  for (int row = 0; row < rows; ++row)
    for (int k = 0; k < depth; ++k) {
      const size_t i = static_cast<size_t>(row) * depth + k;
      const bool isOutlier = k == 1 || k == depth / 2 || k == depth - 1;
      x.set(i, row % kinds == 1 ? x[i] + 30 : row % kinds == 2 && isOutlier ? 100 * x[i] : x[i]);
    }
}

double NormedProduct::meanOf(int row) const {
  double sum = 0;
  for (int k = 0; k < depth; ++k)
    sum += x[static_cast<size_t>(row) * depth + k];
  return sum / depth;
}

double NormedProduct::rstdOf(int row) const {
  double squares = 0, mean = meanOf(row);
  for (int k = 0; k < depth; ++k)
    squares += std::pow(x[static_cast<size_t>(row) * depth + k] - mean, 2);
  return 1 / std::sqrt(squares / depth + 1e-5);
}

void NormedProduct::fill(TestArray &mean, TestArray &rstd, TestArray &sums) const {
  for (int row = 0; row < rows; ++row) {
    mean.set(row, meanOf(row));
    rstd.set(row, rstdOf(row));
  }
  for (int col = 0; col < cols; ++col) {
    double sum = 0;
    for (int k = 0; k < depth; ++k)
      sum += weight[static_cast<size_t>(col) * depth + k];
    sums.set(col, sum);
  }
}

void NormedProduct::fillGroups(const TestArray &rows, int cols, DType type, TestArray &means, TestArray &squares) {
  constexpr size_t size = 8;
  EXPECT_EQ(cols % size, 0U);
  for (size_t group = 0; group < means.size; ++group) {
    double sum = 0, deviations = 0;
    for (size_t i = group * size; i < (group + 1) * size; ++i)
      sum += roundTo(type, rows[i]);
    for (size_t i = group * size; i < (group + 1) * size; ++i)
      deviations += std::pow(roundTo(type, rows[i]) - sum / size, 2);
    means.set(group, sum / size);
    squares.set(group, deviations);
  }
}

void NormedProduct::expectGroupsOf(const TestArray &out, int cols, DType type, const TestArray &means,
                                   const TestArray &squares) {
  std::vector<float> ofMeans(means.size), ofSquares(squares.size);
  TestArray wantedMeans{ofMeans.data(), DType::F32, means.size},
      wantedSquares{ofSquares.data(), DType::F32, squares.size};
  fillGroups(out, cols, type, wantedMeans, wantedSquares);
  for (size_t i = 0; i < means.size; ++i) {
    const double deviation = std::sqrt(wantedSquares[i] / 8);
    ASSERT_NEAR(means[i], wantedMeans[i], 1e-6 * (std::abs(wantedMeans[i]) + deviation)) << i;
    ASSERT_NEAR(squares[i], wantedSquares[i], 1e-5 * wantedSquares[i]) << i;
  }
}

void NormedProduct::expectGroups(DType type, function_ref<TestArray(size_t)> array, function_ref<void(Groups)> launch) {
  makeKinds();
  const size_t size = static_cast<size_t>(rows) * cols;
  TestArray unused = array(rows);
  Groups groups = {array(cols), array(x.size / 8), array(x.size / 8), array(size), array(size / 8), array(size / 8)};
  fill(unused, unused, groups.sums);
  fillGroups(x, depth, type, groups.means, groups.squares);
  launch(groups);
  expectNoWorse(groups.out);
  expectGroupsOf(groups.out, cols, type, groups.outMeans, groups.outSquares);
}

NormedProduct::Products NormedProduct::products() const {
  const size_t size = static_cast<size_t>(rows) * cols;
  Products products{Expectation(size), std::vector<double>(size)};
  std::vector<double> normed(depth), rounded(depth), magnitudes(depth);
  for (int row = 0; row < rows; ++row) {
    const double mean = meanOf(row), rstd = rstdOf(row);
    for (int k = 0; k < depth; ++k) {
      const double element = x[static_cast<size_t>(row) * depth + k];
      normed[k] = (element - mean) * rstd;
      rounded[k] = roundTo(x.type, normed[k]);
      magnitudes[k] = (std::abs(element) + std::abs(mean)) * rstd;
    }
    for (int col = 0; col < cols; ++col) {
      const size_t at = static_cast<size_t>(row) * cols + col;
      products.exact.add(at, bias[col]);
      products.ofRounded[at] = bias[col];
      for (int k = 0; k < depth; ++k) {
        const double factor = weight[static_cast<size_t>(col) * depth + k];
        products.exact.values[at] += normed[k] * factor;
        products.exact.magnitudes[at] += magnitudes[k] * std::abs(factor);
        products.ofRounded[at] += rounded[k] * factor;
      }
    }
  }
  return products;
}

void NormedProduct::expectNoWorse(const TestArray &out) const {
  const Products products = this->products();
  // An eps of 1e-3 is too much, or one wrong element.
  KernelTest::expectClose(out, products.exact, sumTolerance(depth));
  // The operand is not rounded once more, and what cancels is of floats. So not even a tolerance is needed.
  for (int kind = 0; kind < kinds; ++kind) {
    double squares = 0, squaresOfRounded = 0;
    for (size_t at = 0; at < out.size; ++at)
      if (static_cast<int>(at / cols) % kinds == kind) {
        squares += std::pow(out[at] - products.exact.values[at], 2);
        squaresOfRounded += std::pow(products.ofRounded[at] - products.exact.values[at], 2);
      }
    EXPECT_LE(squares, squaresOfRounded) << "kind " << kind;
  }
}

} // namespace kiln
