//===- ring_place.cuh - where a role of a block is in a ring of stages -------------===//
//
// The producer and the consumers of a block walk through the same ring of stages in shared memory. A stage's barriers
// (device/barrier.cuh) tell uses of the stage apart by the parity of their phases.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "device/base.cuh"

namespace kiln {

/// A place in a ring of stages, and the parity of the stage's phase there.
template <int kStages> struct RingPlace {
  u32 stage, parity;

  /// The place after so many uses of the ring's stages.
  KILN_DEVICE static RingPlace after(u32 uses) { return {uses % kStages, uses / kStages & 1}; }
  KILN_DEVICE void advance() {
    if (++stage == kStages) {
      stage = 0;
      parity ^= 1;
    }
  }
  KILN_DEVICE RingPlace next() const {
    RingPlace place = *this;
    place.advance();
    return place;
  }
};

} // namespace kiln
