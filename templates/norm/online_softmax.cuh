//===- online_softmax.cuh - softmax without knowing the largest score yet ------===//
//
// A running maximum and a running sum of exponentials, as in Milakov and Gimelshein, "Online normalizer calculation for
// softmax" (2018): when a larger score comes, the sum so far is scaled down. Masked scores are −inf and add nothing; a
// row without visible scores has sum 0, and no NaN arises.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "device/base.cuh"
#include "device/math.cuh"

namespace kiln {

/// The value to subtract from the scores before the exponential, given the largest score: that score, or 0 if all
/// scores are −inf.
KILN_DEVICE float softmaxShift(float largest) { return largest == -infinity() ? 0.0f : largest; }

/// 1 / sum, or 0 if no score was visible.
KILN_DEVICE float softmaxScale(float sum) { return sum == 0.0f ? 0.0f : 1.0f / sum; }

/// The largest score so far, and the sum of exp(score − softmaxShift(max)).
struct OnlineSoftmax {
  float max = -infinity();
  float sum = 0;

  /// Raises the maximum to at least `largest`. Returns the factor for all values that depend on the old maximum.
  KILN_DEVICE float raise(float largest) {
    const float raised = fmax(max, largest);
    const float factor = exp(max - softmaxShift(raised));
    max = raised;
    sum *= factor;
    return factor;
  }

  /// exp(score − shift).
  KILN_DEVICE float weight(float score) const { return exp(score - softmaxShift(max)); }
};

} // namespace kiln
