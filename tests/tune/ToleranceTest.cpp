#include "tools/session/Tolerance.h"

#include "unit/TestSupport.h"

#include <cmath>

namespace kiln {
namespace {

TEST(Tolerance, NoNumberAgreesWithNothing) {
  const float nan = std::nanf("");
  EXPECT_EQ(largestDifference({1, 2, 3}, {1, 4, 2.5}), 2);
  EXPECT_EQ(largestDifference({1, nan}, {1, 2}), INFINITY);
  EXPECT_EQ(largestDifference({nan, 1}, {2, 1}), INFINITY);
  EXPECT_EQ(largestDifference({1, 2}, {nan, nan}), INFINITY);
  EXPECT_EQ(largestDifference({1, 2}, {1}), INFINITY);
  EXPECT_EQ(largestSize({1, -3, 2}), 3);
}

/// Types with fewer bits and larger values have larger tolerances.
TEST(Tolerance, GrowsAsBitsAreLost) {
  for (ModelSize size : {ModelSize::Small, ModelSize::Gpt2}) {
    EXPECT_LT(logitTolerance(DType::F32, false, size), logitTolerance(DType::F16, false, size));
    EXPECT_LT(logitTolerance(DType::F16, false, size), logitTolerance(DType::BF16, false, size));
    EXPECT_LT(logitTolerance(DType::F32, false, size), logitTolerance(DType::F32, true, size));
  }
  for (DType dtype : {DType::F32, DType::F16, DType::BF16}) {
    EXPECT_LE(logitTolerance(dtype, false, ModelSize::Small), logitTolerance(dtype, false, ModelSize::Gpt2));
    EXPECT_LT(stepTolerance(dtype).ofLargest, stepTolerance(dtype, true).ofLargest);
    EXPECT_LT(stepTolerance(dtype).ofLargest, logitTolerance(dtype, false, ModelSize::Gpt2));
  }
}

} // namespace
} // namespace kiln
