//===- FewRowsTest.h - operands of products of few rows in tensor cores -------------===//
#pragma once

#include "kernels/KernelTest.h"
#include "kernels/mma/Cases.h"

namespace kiln {

/// The operands and the result of a kernel with kCols and kDepth, and what they should give.
class FewRowsTest : public KernelTest, public testing::WithParamInterface<MmaMatmulCase> {
protected:
  const Variant &kernel = GetParam().kernel;
  const DType type = kernel.element();
  const int rows = GetParam().rows, cols = kernel["kCols"], depth = kernel["kDepth"];

  TestArray x = random(type, static_cast<size_t>(rows) * depth),
            weight = random(type, static_cast<size_t>(cols) * depth);
  TestArray bias = random(DType::F32, cols), out = output(DType::F32, static_cast<size_t>(rows) * cols);

  /// left · weight^T + bias
  Expectation product(ArrayRef<double> left) const {
    Expectation expected = matmul(left, weight.values(), rows, cols, depth, /*transposed=*/true);
    addBias(expected, bias.values());
    return expected;
  }
};

} // namespace kiln
