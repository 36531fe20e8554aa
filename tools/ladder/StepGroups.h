//===- StepGroups.h - groups of steps by purpose --------------------------===//
//
// A step is an op of a planned module, plain or fused; its anchor (ops/Region.h) says what it is about.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "ir/IR.h"

namespace kiln {

bool isProductOrElementwise(const Op &step); ///< the same, and separate biases, activations and residuals
bool isAttention(const Op &step); ///< ops between the products around attention, including moves to and from heads
bool isScores(const Op &step);    ///< Q K^T, with what is fused into it
bool isSoftmax(const Op &step);
bool isNorm(const Op &step);        ///< separate layernorm, whole or in parts
bool isElementwise(const Op &step); ///< a function of every element, and moves
bool isFirstInMlp(const Op &step);  ///< the product that enters the MLP: depth n_embd
bool isSecondInMlp(const Op &step); ///< the product that leaves it: depth n_inner

} // namespace kiln
