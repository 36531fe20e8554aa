//===- StepGroups.h - steps by what they are about --------------------------===//
//
// A step is an op of a planned module, plain or fused; its anchor (ops/Region.h) says what it is about.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "ir/IR.h"

namespace kiln {

bool isProduct(const Op &step);              ///< matrix product with a weight, with what is fused into it
bool isProductOrElementwise(const Op &step); ///< the same, and biases, activations and residuals of their own
bool isAttention(const Op &step);            ///< between the products around it, moves to and from heads included
bool isScores(const Op &step);               ///< Q K^T, with what is fused into it
bool isSoftmax(const Op &step);
bool isNorm(const Op &step);            ///< layernorm of its own, whole or in parts
bool isElementwise(const Op &step);     ///< a function of every element, and moves
bool isAttentionOutput(const Op &step); ///< the product after attention: depth C
bool isSecondInMlp(const Op &step);     ///< the product that leaves the MLP: depth 4 C

} // namespace kiln
