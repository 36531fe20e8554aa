//===- computed_here.cuh - arithmetic before a wait ---------------------------------===//
//
// A kernel that waits for the one before it (grid.cuh) should have its addresses then: behind the wait, everybody waits
// for every instruction, some 4 cycles each. But compilers move arithmetic to where its result is used. What they do
// not move is a shuffle, here from a lane to itself.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "device/base.cuh"
#include "device/index.cuh"
#include "device/shared.cuh"
#include "device/warp.cuh"

namespace kiln {

#if defined(__CUDACC__)

/// `value`, which is computed before this returns. All lanes of a warp call it.
template <class T> KILN_DEVICE T computedHere(T value, Site = Site::current()) { return shuffle(value, laneIndex()); }
/// An address in global memory.
template <class T> KILN_DEVICE T *computedHere(T *value, Site = Site::current()) {
  return static_cast<T *>(__cvta_global_to_generic(computedHere(u64(__cvta_generic_to_global(value)))));
}
KILN_DEVICE SharedAddress computedHere(SharedAddress value, Site = Site::current()) {
  return SharedAddress::ofRaw(computedHere(value.raw()));
}

#else

template <class T> KILN_DEVICE T computedHere(T value, Site site = Site::current()) {
  emulatedMeet(site);
  return value;
}

#endif

} // namespace kiln
