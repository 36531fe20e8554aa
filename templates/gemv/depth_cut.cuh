//===- depth_cut.cuh - in which order the products of a row are added -------------===//
//
// The depth of a product, in steps, is cut into kRanges ranges, and each range into kChains chains. Products of a chain
// are added one after the other, the sums of a range's chains in order, then those of the ranges. Templates with the
// same cut give a row the same bits, whatever else their tiles are.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "device/base.cuh"
#include "device/index.cuh"
#include "shape.cuh"

namespace kiln {

template <int kSteps, int kRanges, int kChains> struct DepthCut {
  static constexpr int kAllChains = kRanges * kChains;
  static constexpr bool kIsEven = kSteps % kAllChains == 0;

  static_assert(kRanges >= 1 && kChains >= 1 && kSteps / kRanges >= kChains, "every chain has a step");

  /// The first step of a range, and of a chain, counted over all ranges; that of the next is behind the last.
  KILN_DEVICE static constexpr int firstStepOfRange(int range) { return range * kSteps / kRanges; }
  KILN_DEVICE static constexpr int firstStep(int chain) {
    const int first = firstStepOfRange(chain / kChains), steps = firstStepOfRange(chain / kChains + 1) - first;
    return first + chain % kChains * steps / kChains;
  }
  KILN_DEVICE static constexpr int steps(int chain) { return firstStep(chain + 1) - firstStep(chain); }

  KILN_DEVICE static constexpr int mostSteps() {
    int most = 0;
    for (int chain = 0; chain < kAllChains; ++chain)
      most = max(most, steps(chain));
    return most;
  }
  static constexpr int kMostSteps = mostSteps();

  /// Chains have so many steps, or one more.
  static constexpr int kLeastSteps = kSteps / kRanges / kChains;
  static_assert(kMostSteps <= kLeastSteps + 1);
  KILN_DEVICE static constexpr bool hasOneMore(int chain) {
    return kMostSteps > kLeastSteps && steps(chain) > kLeastSteps;
  }
};

} // namespace kiln
