//===- online_softmax.cuh - softmax without knowing the largest score yet ------===//
//
// Running largest and running sum of exponentials, as in Milakov and Gimelshein, "Online normalizer
// calculation for softmax" (2018): when a larger score turns up, what was summed so far is scaled down.
// Masked scores are −inf and count for nothing; a row in which nothing is visible has sum 0 and no NaN.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "device/base.cuh"
#include "device/math.cuh"

namespace kiln {

/// The value that is subtracted from the scores before the exponential, given the largest score: that score, or 0 where
/// every score is −inf.
KILN_DEVICE float softmaxShift(float largest) { return largest == -infinity() ? 0.0f : largest; }

/// 1 / sum, or 0 where nothing was visible.
KILN_DEVICE float softmaxScale(float sum) { return sum == 0.0f ? 0.0f : 1.0f / sum; }

/// Largest score so far, and the sum of exp(score − softmaxShift(max)).
struct OnlineSoftmax {
  float max = -infinity();
  float sum = 0;

  /// Takes note of scores up to `largest`; what depends on the old shift is to be multiplied by the result.
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
