//===- Tolerance.h - how far off the numbers of a right plan may be -----------===//
//
// One table, so that a tolerance is decided once: by what a plan computes in, and by what is compared.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "support/DType.h"

namespace kiln {

/// Of an element of a step's result: so much of its own size plus so much of that of the largest element of its tensor.
struct StepTolerance {
  double ofElement = 0, ofLargest = 0;
};

/// What one step stays below. In fp32 sums in another order, which grow with their length. In 16 bit also the rounding
/// of the result, and that of operands that a kernel rounds on their way into tensor cores (a normalised row, attention
/// weights), of which sums see a few units at most. `roundsFactors`: of the step's product, to 11 bits (tf32).
StepTolerance stepTolerance(DType dtype, bool roundsFactors = false);

/// Errors grow with the layers and the length of sums: models of up to six layers and 256 channels, or GPT-2.
enum class ModelSize { Small, Gpt2 };

/// What a logit may be off against the reference executor, as a share of the largest logit: several times what was seen
/// of such models, and far below what a wrong kernel leaves. `dtype`: of the plan; `roundsFactors`: of f32 in some
/// product.
double logitTolerance(DType dtype, bool roundsFactors, ModelSize size);

/// The largest difference of two rows of logits; infinite where there is no number on one side.
double largestDifference(ArrayRef<float> row, ArrayRef<float> other);
/// The largest of their sizes.
double largestSize(ArrayRef<float> row);

} // namespace kiln
