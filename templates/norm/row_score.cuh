//===- row_score.cuh - what a row of logits says about tokens ----------------------===//
//
// The log-probability of a given token, the target, and of the best one, from parts of a row that are seen at different
// places: each part gives a RowScore, and two of them merge into that of both parts. Its sum of exponentials is
// relative to the largest logit so far, as in norm/online_softmax.cuh, in powers of two: sum = Σ 2^(logit · log2(e) −
// reference), where the reference is the largest logit · log2(e), rounded. Since target and sum have the same
// reference, its rounding cancels.
//
// A logit that is NaN or +inf makes the row's log-probabilities NaN.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "device/base.cuh"
#include "device/math.cuh"
#include "device/warp.cuh"

namespace kiln {

/// The results for a row.
struct TokenScores {
  float ofTarget; ///< its log-probability; 0 if the target is none, an id outside the vocabulary
  int best;       ///< the id of the largest logit, the lowest of equals
  float ofBest;   ///< its log-probability
};

struct alignas(16) RowScore {
  float largest; ///< logit
  float sum;
  int best;     ///< the lowest id of the largest logit
  float target; ///< its logit; 0 in a part without it

  /// The start of `largest`: below any logit of a model; the reference is finite. A power of two, so that its reference
  /// is exact: compilers may fuse the multiplication into the subtraction of two references, and what is left of a
  /// rounded one of this size is a number whose exponential is infinite.
  static constexpr float kLowest = -0x1p126f;
  static constexpr float kLog2OfE = 1.44269504f, kLogOf2 = 0.69314718f;
  static_assert(double(kLowest) * double(kLog2OfE) == double(kLowest * kLog2OfE), "an exact reference");

  /// The score of no logits.
  KILN_DEVICE static RowScore none() { return {kLowest, 0, 0, 0}; }

  KILN_DEVICE static float referenceOf(float largest) { return largest * kLog2OfE; }

  /// Adds the kCount logits of ids first + offsetOf(i), all higher than those so far; the offsets are constants and
  /// rise with i. Logits of −inf add nothing.
  template <int kCount, class OffsetOf>
  KILN_DEVICE void add(const float (&logits)[kCount], int first, const OffsetOf &offsetOf, int targetId) {
    constexpr int kChains = 4; // of sums, each of which waits for itself
    float most[kChains] = {largest, largest, largest, largest}, sums[kChains] = {};
#pragma unroll
    for (int i = 0; i < kCount; ++i)
      most[i % kChains] = fmax(most[i % kChains], logits[i]);
    const float newLargest = fmax(fmax(most[0], most[1]), fmax(most[2], most[3]));
    const float reference = referenceOf(newLargest);
#pragma unroll
    for (int i = 0; i < kCount; ++i)
      sums[i % kChains] += exp2(fma(logits[i], kLog2OfE, -reference));
    sum = sum * exp2(referenceOf(largest) - reference) + ((sums[0] + sums[1]) + (sums[2] + sums[3]));
    if (newLargest > largest) {
      int index = 0; // since ids would take a register each
#pragma unroll
      for (int i = kCount - 1; i >= 0; --i)
        index = logits[i] == newLargest ? i : index;
      best = first + offsetOf(index);
      largest = newLargest;
    }
    // Few logits are the target's.
    if (targetId >= first && targetId <= first + offsetOf(kCount - 1))
#pragma unroll
      for (int i = 0; i < kCount; ++i)
        target = targetId - first == offsetOf(i) ? logits[i] : target;
  }

  /// The score of two parts.
  KILN_DEVICE static RowScore merged(const RowScore &a, const RowScore &b) {
    const float reference = referenceOf(fmax(a.largest, b.largest));
    const bool isInB = b.largest > a.largest || (b.largest == a.largest && b.best < a.best);
    return {isInB ? b.largest : a.largest,
            a.sum * exp2(referenceOf(a.largest) - reference) + b.sum * exp2(referenceOf(b.largest) - reference),
            isInB ? b.best : a.best, a.target + b.target};
  }

  /// The score of this part and that of the lane whose index differs in the bits of `mask`.
  KILN_DEVICE RowScore mergedWithLane(u32 mask) const {
    return merged(*this,
                  {shuffleXor(largest, mask), shuffleXor(sum, mask), shuffleXor(best, mask), shuffleXor(target, mask)});
  }

  /// The results of a row of `cols` logits, all of which the score has seen.
  KILN_DEVICE TokenScores finish(int targetId, int cols) const {
    const float reference = referenceOf(largest), logOfSum = log(sum);
    auto ofLogit = [&](float logit) { return fma(logit, kLog2OfE, -reference) * kLogOf2 - logOfSum; };
    const bool hasTarget = targetId >= 0 && targetId < cols;
    return {hasTarget ? ofLogit(target) : 0.0f, best, ofLogit(largest)};
  }
};

} // namespace kiln
