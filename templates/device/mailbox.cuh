//===- mailbox.cuh - values that blocks of a grid hand to each other through memory -----===//
//
// A block that must go on with what another block of a running kernel computes waits for it in global memory. Each
// value lies there in one word of 64 bits beside a stamp, so that whoever sees the stamp sees the value: there is no
// flag, and no fence. Both write and read two neighbouring values by one access of 16 bytes, whose halves are each
// whole. The reader repeats the access until both stamps are the expected one, and calls retry() in between.
//
// A word is written again only after all its readers have read it, and with another stamp.
//
// All blocks that wait for each other must be resident: the launch is cooperative. Or a thread that has waited for long
// does without the other block (isPatient()).
//
//===----------------------------------------------------------------------===//
#pragma once

#include "device/base.cuh"
#include "device/numeric.cuh"
#include "device/vec.cuh"

namespace kiln {

/// A value and its stamp.
struct alignas(8) StampedValue {
  float value;
  u32 stamp;
};

/// Two neighbouring words of a mailbox.
struct StampedPair {
  StampedValue first, second;

  /// Whether both have been posted. Whoever sees that comes behind the post.
  KILN_DEVICE bool has(u32 stamp) const {
    const bool arePosted = first.stamp == stamp && second.stamp == stamp;
#if !defined(__CUDACC__)
    if (arePosted)
      emulatedThread->acquire();
#endif
    return arePosted;
  }
  KILN_DEVICE Vec<float, 2> values() const { return {first.value, second.value}; }
};

#if defined(__CUDACC__)

/// Writes two values. `target` is at a multiple of 16 bytes. It orders no other accesses.
KILN_DEVICE void post(StampedValue *target, const Vec<float, 2> &values, u32 stamp, Site = Site::current()) {
  const u64 high = u64(stamp) << 32;
  asm volatile("st.relaxed.gpu.global.v2.b64 [%0], {%1, %2};" ::"l"(target), "l"(high | bitCast<u32>(values[0])),
               "l"(high | bitCast<u32>(values[1]))
               : "memory");
}

/// Reads two words, as they are now.
KILN_DEVICE StampedPair peek(const StampedValue *source, Site = Site::current()) {
  u64 first, second;
  asm volatile("ld.relaxed.gpu.global.v2.b64 {%0, %1}, [%2];" : "=l"(first), "=l"(second) : "l"(source) : "memory");
  return {bitCast<StampedValue>(first), bitCast<StampedValue>(second)};
}

/// Called before a peek is repeated.
KILN_DEVICE void retry(Site = Site::current()) {}

/// Whether a block may find what others of its launch post. If not, it must do without them.
KILN_DEVICE bool seesOtherBlocks() { return true; }
/// Whether a thread that has peeked so often in vain should go on: some 50 µs, far longer than blocks take that run
/// beside each other.
KILN_DEVICE bool isPatient(u32 peeks) { return peeks < 128; }

#else

KILN_EMULATED_NOTES_ACCESSES KILN_DEVICE void post(StampedValue *target, const Vec<float, 2> &values, u32 stamp,
                                                   Site site = Site::current()) {
  emulatedCheckAligned(target, 2 * sizeof(StampedValue), site);
  for (int i = 0; i < 2; ++i) {
    emulatedNote(target + i, EmulatedAccess::Atomic);
    target[i] = {values[i], stamp};
  }
}

KILN_EMULATED_NOTES_ACCESSES KILN_DEVICE StampedPair peek(const StampedValue *source, Site site = Site::current()) {
  emulatedCheckAligned(source, 2 * sizeof(StampedValue), site);
  for (int i = 0; i < 2; ++i)
    emulatedNote(source + i, EmulatedAccess::Atomic);
  return {source[0], source[1]};
}

KILN_DEVICE void retry(Site site = Site::current()) { emulatedThread->pause(site); }

// Blocks run one after the other, unless the launch says that they wait for each other. Then a wait that never ends is
// an error.
KILN_DEVICE bool seesOtherBlocks() { return emulatedThread->mayWaitForBlocks(); }
KILN_DEVICE bool isPatient(u32) { return true; }

#endif

} // namespace kiln
