//===- ProductTest.h - operands of products by wgmma, and what they should give -----===//
#pragma once

#include "kernels/KernelTest.h"
#include "kernels/wgmma/Cases.h"

#include <cmath>

namespace kiln {

/// The operands of a kernel with kCols and kDepth: x of `rows` rows, the weight padded with NaN to whole groups of 32
/// columns, a bias.
class ProductTest : public KernelTest {
protected:
  ProductTest(const Variant &kernel, int rows)
      : kernel(kernel), type(kernel.element()), rows(rows), cols(kernel["kCols"]), depth(kernel["kDepth"]) {}

  void SetUp() override {
    if (target() != "sm_90a")
      GTEST_SKIP() << "expected a GPU with wgmma, sm_90a, got one of " << target();
  }

  const Variant kernel;
  const DType type;
  const int rows, cols, depth;
  /// The weight's map has 32 columns together; those past the end are no part of the results.
  const int mappedCols = (cols + 31) / 32 * 32;

  TestArray x = random(type, static_cast<size_t>(rows) * depth);
  TestArray weight = paddedWeight();
  TestArray bias = random(DType::F32, cols);

  TestArray paddedWeight() {
    TestArray array = random(type, static_cast<size_t>(mappedCols) * depth);
    for (size_t i = static_cast<size_t>(cols) * depth; i < array.size; ++i)
      array.set(i, NAN);
    return array;
  }

  /// The first `count` rows of x, for tiles of tileM rows.
  MappedArray mappedX(int count, int tileM) const {
    const auto row = static_cast<uint64_t>(depth) * 2;
    const int box = std::min(tileM, (count + 7) / 8 * 8);
    return {x, {row / 2, static_cast<uint64_t>(count)}, {row}, {64, static_cast<uint32_t>(box)}};
  }
  /// As the templates want it: column g/4 p + 2j + e of each g, 32, 16 or 8, is row 8j + 2p + e. Copies are of a share
  /// of a tile's columns.
  MappedArray mappedWeight(int tileN, int shares = 1) const {
    const auto row = static_cast<uint64_t>(depth) * 2;
    const uint32_t group = tileN % 32 == 0 ? 32 : tileN % 16 == 0 ? 16 : 8;
    return {weight,
            {row / 2, 2, 4, group / 8, static_cast<uint64_t>(mappedCols) / group},
            {row, group / 4 * row, 2 * row, group * row},
            {64, 2, 4, group / 8, static_cast<uint32_t>(tileN / shares) / group}};
  }

  /// x · weight^T + bias
  Expectation product() const {
    Expectation expected = matmul(x.values(), weight.values(), rows, cols, depth, /*transposed=*/true);
    addBias(expected, bias.values());
    return expected;
  }
};

} // namespace kiln
