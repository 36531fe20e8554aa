//===- Tolerance.h - allowed errors of a correct plan ---------------------===//
//
// One table defines every tolerance, by the arithmetic of the plan and by the quantity that is compared.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "support/model/DType.h"

namespace kiln {

/// The tolerance of an element of a step's result: a share of its own magnitude plus a share of the largest magnitude
/// in its tensor.
struct StepTolerance {
  double ofElement = 0, ofLargest = 0;
};

/// The tolerance of one step. In fp32 it covers sums in another order, whose error grows with their length. In 16 bits
/// it also covers the rounding of the result, and of operands that a kernel rounds for tensor cores (a normalised row,
/// attention weights), which changes sums by a few units at most. `roundsFactors`: the step's product rounds its
/// factors to 11 bits (tf32).
StepTolerance stepTolerance(DType dtype, bool roundsFactors = false);

/// Errors grow with the number of layers and the length of sums: models of up to six layers and 256 channels, or GPT-2.
enum class ModelSize { Small, Gpt2 };

/// The allowed difference of a logit from the reference executor's, as a share of the largest logit: several times the
/// differences seen for such models, and far below those of a wrong kernel. `dtype`: of the plan; `roundsFactors`: some
/// product of an f32 plan rounds its factors.
double logitTolerance(DType dtype, bool roundsFactors, ModelSize size);

/// The largest difference of two rows of logits; infinite if one side is not a number.
double largestDifference(ArrayRef<float> row, ArrayRef<float> other);
/// The largest magnitude of the logits.
double largestSize(ArrayRef<float> row);

} // namespace kiln
