//===- NormedProduct.h - products of rows that are normalised afterwards ------===//
#pragma once

#include "kernels/KernelTest.h"

namespace kiln {

/// Rows, a weight [cols, depth] and a bias, whose layer normalisation and product are known in double. Rows are, in
/// turn: standard normal; of a mean of 30; with a few channels that are a hundred times as large.
struct NormedProduct {
  static constexpr int kinds = 3;

  TestArray x, weight, bias;
  int rows, cols, depth;

  /// Shifts and scales standard normal rows in this way.
  void makeKinds();

  /// Writes the statistics of the rows and the sums of the weight, as a plan has them.
  void fill(TestArray &mean, TestArray &rstd, TestArray &sums) const;

  /// Writes the statistics of groups of 8 columns of rows [rows, cols], rounded to `type`.
  static void fillGroups(const TestArray &rows, int cols, DType type, TestArray &means, TestArray &squares);
  /// Expects statistics of groups that are those of the rows `out` [rows, cols], rounded to `type`.
  static void expectGroupsOf(const TestArray &out, int cols, DType type, const TestArray &means,
                             const TestArray &squares);

  /// What a kernel reads and writes that merges statistics of its rows' groups and hands out those of its results.
  struct Groups {
    TestArray sums, means, squares, out, outMeans, outSquares;

    std::vector<TestArray> outputs() const { return {out, outMeans, outSquares}; }
  };
  /// Runs such a kernel on rows of all kinds, of elements of `type`, and expects its results to be no worse than those
  /// of rounded rows, and to have these statistics. `array`: makes one of so many floats.
  void expectGroups(DType type, function_ref<TestArray(size_t)> array, function_ref<void(Groups)> launch);

  /// Expects every element of `out` to be close to layernorm(x) · weightᵀ + bias; and for each kind of rows the root
  /// mean square of the differences to be no larger than that of a product in double of rows that are normalised first
  /// and rounded to the type of x.
  void expectNoWorse(const TestArray &out) const;

private:
  /// Products in double: of exact rows, with the magnitudes of what a kernel adds, and of rounded ones.
  struct Products {
    Expectation exact;
    std::vector<double> ofRounded;
  };
  Products products() const;
  double meanOf(int row) const;
  double rstdOf(int row) const; ///< with an eps of 1e-5
};

} // namespace kiln
